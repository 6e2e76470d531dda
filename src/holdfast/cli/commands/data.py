"""``holdfast data ...``: data sets that a target keeps"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose
from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.machines import data_sets as engine
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, is_tty, show
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.channel import RunnerChannel

_COLUMNS = ("name", "hash", "files", "bytes", "last_used", "pinned", "in_use", "shared", "folder")


def list_sets(parsed: Parsed) -> int:
    with _Reached(parsed) as there:
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
    with _Reached(parsed) as there:
        row = engine.act(there.channel, there.name, parsed.text("set") or "", act)
    done = {"pin": "pinned", "unpin": "no longer pinned", "remove": "removed"}[act]
    sys.stderr.write(f"{show(str(row['name']))} ({str(row['hash'])[:12]}) on {show(there.name)}: {done}\n")
    return 0


class _Reached:
    """A target, with the connection to it."""

    def __init__(self, parsed: Parsed) -> None:
        home = open_home()
        project = projects.find(parsed.text("project") or os.getcwd())
        compute = choose(home.path, project.root, parsed.text("config") or "").compute
        self.name = compute.name
        self.channel: RunnerChannel = connect(home, target_lookup.resolve(compute, home.path), ASKING)

    def __enter__(self) -> _Reached:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
