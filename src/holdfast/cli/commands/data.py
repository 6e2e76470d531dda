"""``holdfast data ...``: data sets that a target keeps"""

from __future__ import annotations

import sys

from holdfast.cli.confirm import ConnectedTarget
from holdfast.engine.machines import data_sets as engine
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, is_tty, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed

_COLUMNS = ("name", "hash", "files", "bytes", "last_used", "pinned", "in_use", "shared", "folder")


def list_sets(parsed: Parsed) -> int:
    with ConnectedTarget(parsed) as there:
        rows = engine.listed(there.channel, there.name)
    if parsed.text("output") or parsed.text("query") or not is_tty(sys.stdout):
        emit(rows, fmt=parsed.text("output"), query=parsed.text("query"), columns=_COLUMNS)
        return 0
    for row in rows:
        row.update(hash=str(row["hash"])[:12], size=human_bytes(int(str(row["bytes"]))))
    emit(rows, columns=("name", "hash", "files", "size", "last_used", "pinned", "in_use"))
    if not rows:
        sys.stderr.write(f"no data sets on {show(there.name)}\n")
    return 0


def pin(parsed: Parsed) -> int:
    return _act(parsed, "unpin" if parsed.flag("off") else "pin")


def remove(parsed: Parsed) -> int:
    return _act(parsed, "remove")


def _act(parsed: Parsed, act: str) -> int:
    with ConnectedTarget(parsed) as there:
        row = engine.act(there.channel, there.name, parsed.text("set") or "", act)
    done = {"pin": "pinned", "unpin": "no longer pinned", "remove": "removed"}[act]
    sys.stderr.write(f"{show(str(row['name']))} ({str(row['hash'])[:12]}) on {show(there.name)}: {done}\n")
    return 0
