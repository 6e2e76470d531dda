"""Many commands on one store at once."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from conftest import Desk, Result

READERS = (("history", "list", "-o", "json"), ("history", "info", "-o", "json"), ("logs",))


class Outcome(NamedTuple):
    submits: list[Result]
    reads: list[Result]


def crowd(desk: Desk, submits: int, readers: int) -> Outcome:
    """Start all submits at once; readers ask again and again until the last of them has ended."""
    desk.script("import holdfast, sys; holdfast.log('number', int(sys.argv[1])); print('said', sys.argv[1])")
    assert desk.submit("train.py", "0").code == 0
    over = threading.Event()
    reads: list[Result] = []

    def read(number: int) -> None:
        while not over.is_set():
            reads.append(desk.holdfast(*READERS[number % len(READERS)]))

    watching = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in watching:
        thread.start()
    started = [desk.start("submit", "-c", "local", "train.py", str(number)) for number in range(1, submits + 1)]
    from conftest import Result

    ended = []
    for process in started:
        out, err = process.communicate(timeout=300)
        ended.append(Result(process.returncode, out, err.decode()))
    over.set()
    for thread in watching:
        thread.join()
    return Outcome(ended, reads)


def assert_nobody_lost(desk: Desk, outcome: Outcome) -> None:
    submits = len(outcome.submits)
    assert [result for result in (*outcome.submits, *outcome.reads) if result.code or "ERROR" in result.err] == []
    records = desk.holdfast("history", "list", "-o", "json").json
    assert [record["run_number"] for record in records] == list(range(submits + 1, 0, -1))
    assert sorted(record["number"] for record in records) == list(range(submits + 1))
    assert {record["status"] for record in records} == {"Completed"}
    assert len({record["run_id"] for record in records}) == submits + 1
    stamps = [int(record["run_id"].rpartition("_")[2]) for record in records]
    assert stamps == sorted(stamps, reverse=True)
    for record in records:
        log = desk.home / "runs" / record["uid"] / "a1" / "log"
        assert log.read_text() == f"said {record['number']}\n"
    assert json.loads((desk.home / "store.json").read_text())["layout"] == 1
    assert desk.holdfast("store", "verify").code == 0
