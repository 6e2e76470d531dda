"""Records of cells from a hostile target: refused or stored as sound runs, and never more than a kernel may fill."""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

from holdfast.engine.notebooks import cell_records
from holdfast.engine.notebooks.cell_records import Budget, Notebook
from holdfast.errors import MalformedAnswerError
from holdfast.project import remember
from holdfast.script_api import tunnel
from holdfast.store.home import Home
from security.replay import VALUES, changed_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

RECORD: dict[str, Any] = {
    "v": 1,
    "number": 3,
    "source": "1 + 1",
    "start": 1_700_000_000.0,
    "end": 1_700_000_001.0,
    "error": "",
    "log": "2\n",
    "metrics": {"1-2.m": ""},
    "outputs": {"a.txt": "eA=="},
}
NAMES = (
    "../x",
    "/etc/x",
    "a/../../x",
    "a\0b",
    "\ud800",
    "x" * 300,
    "a/" * 3000 + "b",
    "cell.py/x",
    ".",
    "..",
    "",
    "a//b",
)
FRAME = struct.Struct("<BIQI")  # of the tunnel: kind, connection, number, length
FLOODS = ({f"{number}": "" for number in range(100_000)}, {"big": "A" * (30 << 20)}, {"a": "eA==", "a/b": "eA=="})


def _records() -> Iterator[dict[str, Any]]:
    paths = [(name,) for name in RECORD] + [("metrics", "1-2.m"), ("outputs", "a.txt")]
    for path in paths:
        for way in VALUES:
            try:
                yield json.loads(changed_text(RECORD, path, way))
            except (ValueError, RecursionError):
                continue  # the tunnel refuses it
    for field in ("outputs", "metrics"):
        yield from ({**RECORD, field: {name: "eA=="}} for name in NAMES)
        yield from ({**RECORD, field: files} for files in FLOODS)
    for moment in (1e300, -1e300, 1e17, -5.0, 1e15):
        yield from ({**RECORD, field: moment} for field in ("start", "end"))


def test_no_record_of_a_hostile_target_damages_the_store(desk: Desk) -> None:
    from holdfast import project as projects

    home, project = Home(str(desk.home), ""), remember(projects.find(str(desk.project)))
    desk.home.mkdir(exist_ok=True)
    notebook = Notebook("work.ipynb", "far", "far", "work_1")
    stored = refused = 0
    for record in _records():
        try:
            cell = cell_records.read("far", record)
        except MalformedAnswerError:
            refused += 1
            continue
        stored += 1
        if stored % 7 == 1:  # publishing a run costs milliseconds
            cell_records.add(home, project, notebook, cell)
    assert stored > 50
    assert refused > 150
    verified = desk.holdfast("store", "verify")
    assert verified.code == 0, verified
    assert len(desk.holdfast("history", "list", "-o", "json").json) == -(-stored // 7)
    assert sorted(path.name for path in desk.home.parent.iterdir()) == ["project", "store", "user"]


def test_records_of_a_kernel_end_at_its_budget() -> None:
    small = cell_records.read("far", RECORD)
    budget = Budget()
    assert sum(budget.take(small) for _ in range(cell_records.MOST_CELLS + 50)) == cell_records.MOST_CELLS
    large = cell_records.read("far", {**RECORD, "outputs": {"a": "A" * (20 << 20)}})
    budget = Budget()
    taken = sum(budget.take(large) for _ in range(200))
    assert taken == cell_records.MOST_BYTES // large.size
    assert not budget.take(small)


def test_target_that_opens_connections_in_vain_does_not_fill_the_memory() -> None:
    """The client refuses each with a frame that it keeps until the target has it, which says nothing."""
    end = tunnel.Tunnel(lambda _channel: None, lambda _message: None)
    ours, theirs = socket.socketpair()
    end.attach(ours)
    theirs.setblocking(False)
    sent = 0
    with theirs:
        while end.is_attached and sent < 2 * tunnel._MOST_REFUSALS:
            numbers = range(sent, sent + 1000)
            theirs.sendall(b"".join(FRAME.pack(tunnel.OPEN, 9, number, 1) + b"\0" for number in numbers))
            sent += 1000
            while not _is_read(end, theirs):
                pass
    assert not end.is_attached
    assert sent <= tunnel._MOST_REFUSALS + 2000


def _is_read(end: tunnel.Tunnel, theirs: socket.socket) -> bool:
    before = end.last_heard
    end.turn(0)
    try:
        theirs.recv(1 << 20)
    except BlockingIOError:
        pass
    return end.last_heard == before or not end.is_attached
