"""``holdfast experiment clean``: frees disk space on a target"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose
from holdfast.cli.reach import tell_quiet
from holdfast.engine.connection.channel import SEARCHING, connect
from holdfast.engine.machines import cleanup as engine
from holdfast.errors import UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, is_tty, show, young_note
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json

_COLUMNS = ("what", "count", "bytes", "stays", "why")


def clean(parsed: Parsed) -> int:
    """Shown first, then asked about, then removed."""
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    compute = choose(home.path, project.root, parsed.text("config") or "").compute
    target = target_lookup.resolve(compute, home.path)
    channel = connect(home, target, SEARCHING, tell_quiet)
    try:
        findings = engine.look(home, target, channel)
        if parsed.flag("dry_run") or not findings.count:
            _tell(parsed, findings, f"{human_bytes(findings.bytes)} on {target.name} could be freed")
            return 0
        _confirm(parsed, target.name, findings)
        gone = engine.remove(home, target, channel, findings)
    finally:
        channel.close()
    _tell(parsed, gone, f"{human_bytes(gone.bytes)} freed on {target.name}")
    return 0


def _confirm(parsed: Parsed, name: str, findings: engine.Findings) -> None:
    if parsed.flag("yes"):
        return
    sys.stderr.write("".join(f"{line}\n" for line in _lines(findings)))
    if is_tty(sys.stdin) and is_tty(sys.stderr):
        sys.stderr.write(f"Remove this from {show(name)}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError("nothing was removed", where=name, hint="--yes removes it; --dry-run only shows it")


def _tell(parsed: Parsed, findings: engine.Findings, sentence: str) -> None:
    if parsed.text("output") or parsed.text("query") or not is_tty(sys.stdout):
        rows = [{**row, "why": _why(row)} for row in findings.rows]
        emit(rows, **parsed.form(), columns=_COLUMNS)
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(findings)))
    sys.stdout.flush()
    sys.stderr.write(f"{show(sentence)}\n")


def _lines(findings: engine.Findings) -> list[str]:
    """One line of text for each row with a remark."""
    lines = []
    for row in findings.rows:
        stays = f"{row['stays']} stay" if row["stays"] else ""
        note = f"  ({', '.join(filter(None, (stays, _why(row))))})" if stays or _why(row) else ""
        if row["count"] or note:
            size = human_bytes(int(str(row["bytes"])))
            lines.append(show(f"{size:>10}  {row['what']}: {row['count']}{note}"))
    return lines


def _why(row: Json) -> str:
    """Why things stay, with those that are too young to be removed."""
    young = young_note(int(str(row["young"])), int(str(row["young_bytes"])))
    return "; ".join(filter(None, (str(row["why"]), young)))
