"""``holdfast check`` and ``holdfast revive``: what in a project no longer works, and what replaces it."""

from __future__ import annotations

import os
import sys
from shlex import quote

from holdfast import planning, target_lookup
from holdfast import project as projects
from holdfast.errors import UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import show
from holdfast.store.home import location, open_home
from holdfast.trust.ownership import foreign_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.cli.parse import Parsed
    from holdfast.engine.revival.fixes import Change
    from holdfast.engine.revival.survey import Report
    from holdfast.engine.revival.trial import Result
    from holdfast.model import Json


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


def revive(parsed: Parsed) -> int:
    """Exit code 1 if a script that was run failed, 65 if the project has errors that nothing replaces."""
    from holdfast.engine.revival import fixes, trial
    from holdfast.engine.revival.survey import survey

    root = _folder(parsed.text("path") or ".")
    projects.refuse_home(root)
    page = _page_path(root, parsed)
    if parsed.flag("run") or parsed.flag("write"):
        for path in (*reversed(projects.marks(root)), root):
            projects.refuse_foreign(path, root)
    report = survey(root, _user_targets(root))
    for_machines = bool(parsed.text("output") or parsed.text("query"))
    if not for_machines:
        _print_report(report)
    results = None
    if parsed.flag("run"):
        environment, timeout = parsed.text("environment") or "project", parsed.text("timeout") or "30m"
        results = []
        _name_foreign(report)
        for result in trial.run_all(open_home(), report, environment=environment, timeout=timeout):
            results.append(result)
            sys.stderr.write(_result_line(result))
        _write_page(report, results, page)
    if parsed.flag("write"):
        fixes.write(root, list(report.changes))
        sys.stderr.write(f"{len(report.changes)} file{'' if len(report.changes) == 1 else 's'} changed\n")
    elif report.changes:
        sys.stderr.write("nothing in the project was changed; --write applies the replacements\n")
    if for_machines:
        emit(_as_json(report, results), **parsed.form())
    if results is not None:
        return 1 if any(result.code for result in results) else 0
    return 65 if any(finding.severity == "error" for finding in report.findings) else 0


def _folder(path: str) -> str:
    root = os.path.realpath(path)
    if not os.path.isdir(root):
        hint = "name the folder of the project; clone a repository first: git clone URL"
        raise UsageError("no such folder", where=path, hint=hint)
    return root


def _page_path(root: str, parsed: Parsed) -> str:
    """Where the page will be; whatever would prevent it, or the runs, is refused before a script runs."""
    for name in ("environment", "timeout", "html"):
        if parsed.text(name) and not parsed.flag("run"):
            option = {"environment": "--env"}.get(name, f"--{name}")
            raise UsageError(
                f"{option} is for --run", where="holdfast revive", hint=f"add --run, or leave {option} out"
            )
    planning.seconds(parsed.text("timeout") or "30m", "--timeout")
    folder = os.getcwd()
    if os.path.commonpath([os.path.realpath(folder), root]) == root:
        folder = os.path.dirname(root)
    named = parsed.text("html")
    path = os.path.abspath(named) if named else os.path.join(folder, f"{os.path.basename(root)}-revived.html")
    above = os.path.dirname(path)
    if parsed.flag("run") and (os.path.isdir(path) or not os.access(above, os.W_OK)):
        reason = "is a folder" if os.path.isdir(path) else "cannot be written"
        raise UsageError(f"the page {reason}", where=path, hint="name a file that can be written: --html FILE")
    return path


def _name_foreign(report: Report) -> None:
    for file in report.entries:
        if not projects.is_confirmed(report.root) and foreign_owner(os.path.join(report.root, file)) is not None:
            hint = f"if you trust it: holdfast trust {quote(report.root)}"
            sys.stderr.write(f"{show(file)}: not run: it belongs to another user; {show(hint)}\n")


def _print_report(report: Report) -> None:
    from holdfast.amlconfig.findings import render

    lines = [f"{report.name}: {report.era}"]
    lines += [
        f"  run configuration {row['name']}: {row['target']}, {row['framework']}" for row in report.configurations
    ]
    lines += [f"  {role:<10} {file}" for file, role in report.roles]
    lines += [f"  data flow  {file}" for file in report.flows]
    sys.stdout.write("".join(f"{show(line)}\n" for line in lines))
    sys.stdout.write(render(report.findings))
    print_diff(list(report.changes), sys.stdout)
    sys.stdout.write("".join(f"left to you: {show(line)}\n" for line in report.left))
    sys.stdout.flush()


def _result_line(result: Result) -> str:
    from holdfast.present.pages.revive_page import last_values

    word = "completed" if result.code == 0 else f"exit code {result.code}"
    last = last_values(result.metrics)
    text = f"{result.script}: {word} in {result.seconds} s" + (f", {last}" if last else "")
    reason = _reason(result.tail) if result.code else ""
    return f"{show(text)}\n" + (f"    {show(reason)}\n" if reason else "")


def _reason(log: str) -> str:
    """The last line that the script printed, or the error for which it was not started."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if line.startswith("RunId:")]
    if ends and set(lines[ends[-1] - 1]) == {"="} and ends[-1] >= 3:  # below the heading that follows the output
        last = lines[ends[-1] - 3]
        return "" if set(last) == {"="} else last
    return next((line for line in reversed(lines) if line.startswith("ERROR:")), "")


def _write_page(report: Report, results: list[Result], path: str) -> None:
    from holdfast.amlconfig.write import save
    from holdfast.present.pages import revive_page

    save(path, revive_page.page(report, results))
    sys.stderr.write(f"{show(path)}\n")


def _as_json(report: Report, results: list[Result] | None) -> Json:
    return {
        "name": report.name,
        "era": report.era,
        "configurations": list(report.configurations),
        "targets": list(report.targets),
        "scripts": [{"file": file, "role": role} for file, role in report.roles],
        "dataflows": list(report.flows),
        "findings": [finding._asdict() for finding in report.findings],
        "changes": [{"file": change.file, "reasons": list(change.reasons)} for change in report.changes],
        "left": list(report.left),
        "results": None if results is None else [result._asdict() for result in results],
    }
