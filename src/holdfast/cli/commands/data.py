"""``holdfast data ...``: data sets that a target keeps"""

from __future__ import annotations

import sys

from holdfast.cli.confirm import ConnectedTarget
from holdfast.engine.machines import data_sets as engine
from holdfast.errors import StoreError
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, is_tty, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed

_VERDICTS = {
    "intact": "intact",
    "damaged": "damaged; what is damaged was removed, and the next submit sends it again",
    "absent": "removed meanwhile",
    "in-use": "damaged, and used by a run; the next submit sends it again",
}
_COLUMNS = ("name", "hash", "files", "bytes", "last_used", "pinned", "in_use", "shared", "folder")


def list_sets(parsed: Parsed) -> int:
    with ConnectedTarget(parsed) as there:
        rows = engine.listed(there.channel, there.name)
    if parsed.text("output") or parsed.text("query") or not is_tty(sys.stdout):
        emit(rows, **parsed.form(), columns=_COLUMNS)
        return 0
    for row in rows:
        row.update(hash=str(row["hash"])[:12], size=human_bytes(int(str(row["bytes"]))))
    emit(rows, columns=("name", "hash", "files", "size", "last_used", "pinned", "in_use"), capitals=parsed.compatible)
    if not rows:
        sys.stderr.write(f"no data sets on {show(there.name)}\n")
    return 0


def pin(parsed: Parsed) -> int:
    return _act(parsed, "unpin" if parsed.flag("off") else "pin")


def remove(parsed: Parsed) -> int:
    return _act(parsed, "remove")


def verify(parsed: Parsed) -> int:
    rows = []
    with ConnectedTarget(parsed) as there:
        for row in engine.verify(there.channel, there.name, parsed.text("set")):
            rows.append(row)
            sys.stderr.write(f"{show(str(row['name']))} {str(row['hash'])[:12]}: {_VERDICTS[str(row['state'])]}\n")
    if parsed.text("output") or parsed.text("query"):
        columns = ("name", "hash", "files", "bytes", "state", "damaged")
        emit(rows, **parsed.form(), columns=columns)
    is_damaged = any(row["damaged"] for row in rows)
    sys.stderr.write("" if is_damaged else f"{len(rows)} checked on {show(there.name)}: everything is intact\n")
    return StoreError.exit_code if is_damaged else 0


def _act(parsed: Parsed, act: str) -> int:
    with ConnectedTarget(parsed) as there:
        row = engine.act(there.channel, there.name, parsed.text("set") or "", act)
    done = {"pin": "pinned", "unpin": "no longer pinned", "remove": "removed"}[act]
    sys.stderr.write(f"{show(str(row['name']))} ({str(row['hash'])[:12]}) on {show(there.name)}: {done}\n")
    return 0
