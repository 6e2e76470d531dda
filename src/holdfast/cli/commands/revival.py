"""``holdfast check`` and ``holdfast revive``: what in a project no longer works, and what replaces it."""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.present.output import emit
from holdfast.present.terminal import show
from holdfast.store.home import location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.cli.parse import Parsed
    from holdfast.engine.revival.fixes import Change


def check(parsed: Parsed) -> int:
    """Every finding about the project's files at once; exit code 65 if one of them is an error."""
    from holdfast.amlconfig.findings import render
    from holdfast.engine.revival import project_check
    from holdfast.engine.submit.confirmation import unconfirmed

    root = projects.find(parsed.text("project") or os.getcwd()).root
    targets = _user_targets(root)
    if parsed.flag("fix"):
        _fix(root, targets, sys.stderr if parsed.text("output") or parsed.text("query") else sys.stdout)
    findings = [*project_check.check(root, targets), *unconfirmed(location(), root)]
    findings.sort(key=lambda finding: (finding.file, finding.line, finding.column))
    if parsed.text("output") or parsed.text("query"):
        emit([finding._asdict() for finding in findings], **parsed.form())
    else:
        sys.stdout.write(render(findings) or "no findings\n")
    return 65 if any(finding.severity == "error" for finding in findings) else 0


def _user_targets(root: str) -> list[str]:
    return list(target_lookup.targets(target_lookup.folders(root, location())[1:]))


def _fix(root: str, targets: list[str], stream: TextIO) -> None:
    """Show the whole diff, and write the files."""
    from holdfast.engine.revival import fixes

    changes, left = fixes.changes(root, targets)
    print_diff(changes, stream)
    fixes.write(root, changes)
    sys.stderr.write("".join(f"left to you: {show(line)}\n" for line in left))
    sys.stderr.write(f"{len(changes)} file{'' if len(changes) == 1 else 's'} changed\n")


def print_diff(changes: list[Change], stream: TextIO) -> None:
    stream.write("".join(f"{show(line)}\n" for change in changes for line in change.diff()))
