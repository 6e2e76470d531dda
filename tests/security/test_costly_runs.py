"""A run whose files are made to take long costs other runs nothing, and itself one line."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from holdfast.engine.runs.follow import Follower
from holdfast.engine.runs.open_index import open_index
from holdfast.errors import MalformedAnswerError
from holdfast.store import output_manifest, runs
from holdfast.store.home import Home
from holdfast.store.index.index import Index
from security.hostile import channel, piece

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.model import Json

UID, OTHER = "a" * 32, "b" * 32
CLOSED = b'{"type":"closed","outcome":"completed","exit_code":0,"files":{}}\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(str(tmp_path / "store"), "1" * 32)
    for number, uid in enumerate((UID, OTHER), 1):
        os.makedirs(found.run(uid, "a1"))
        request = {"uid": uid, "run_id": f"x_{number}", "run_number": number, "project_id": f"p{number}"}
        with open(found.run(uid, "run.json"), "w") as target:
            json.dump({**request, "target": "evil"}, target)
    _write(found.run(OTHER, "a1", "events.jsonl"), CLOSED)
    return found


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as target:
        target.write(content)


@pytest.mark.parametrize(
    "events",
    [b"{}\n" * (runs.MOST_EVENTS + 1), b'{"type":"queued"}\n' * (runs.MOST_EVENT_BYTES // 18 + 1)],
    ids=["lines", "bytes"],
)
def test_run_with_too_many_events_is_damaged_in_one_line(home: Home, events: bytes) -> None:
    _write(home.run(UID, "a1", "events.jsonl"), events)
    run = runs.read(home, UID)
    assert run.events == []
    assert "events.jsonl" in run.damage
    assert "at most" in run.damage
    assert "'evil'" in run.damage
    told: list[str] = []
    index = open_index(home, told.append, "p1")
    assert len(told) == 1
    assert run.damage in told[0]
    assert [record["status"] for record in index.of_project("p2")] == ["Completed"]
    assert [record["status"] for record in index.of_project("p1")] == ["Damaged"]
    index.close()


def test_unchanged_damaged_run_is_not_read_again(home: Home) -> None:
    """Every run that is read is looked up by its row before it is written: that statement is not seen."""
    events = home.run(UID, "a1", "events.jsonl")
    _write(events, b"{}\n" * (runs.MOST_EVENTS + 1))
    first = Index(home)
    assert first.record(UID)["status"] == "Damaged"
    first.close()
    statements: list[str] = []
    again = Index(home)
    again.db.set_trace_callback(statements.append)
    before = again.db.total_changes
    again.refresh([UID])
    assert again.record(UID)["status"] == "Damaged"
    assert not [text for text in statements if text.startswith("SELECT id, final, mark")], "it was read again"
    assert again.db.total_changes == before
    _write(events, CLOSED)
    again.refresh([UID])
    assert again.record(UID)["status"] == "Completed"
    again.close()


def test_run_that_could_not_be_read_is_read_again(home: Home) -> None:
    """A refusal by the system is not a verdict about the files."""
    os.mkdir(home.run(UID, "a1", "events.jsonl"))
    run = runs.read(home, UID)
    assert run.problem
    assert run.is_unread


def test_events_without_end_are_refused_and_not_kept(home: Home) -> None:
    def answers(request: Json) -> Iterator[bytes]:
        for count in range(10**9):
            data = b"{}\n" * (runs.MOST_EVENTS // 2)
            yield piece(request, "events.jsonl", data, offset=count * len(data))

    opened = channel(answers)
    follower = Follower(home, UID, lambda _block: None)
    try:
        with pytest.raises(MalformedAnswerError, match="more data than the limit"):
            follower.follow(opened, wait=False)
    finally:
        follower.close()
        opened.close()
    assert not runs.read(home, UID).problem


def test_manifest_of_too_many_lines_is_not_parsed_and_told(home: Home) -> None:
    _write(home.run(OTHER, "a1", "outputs.jsonl"), b"{}\n" * (output_manifest.MOST_ROWS + 1))
    run = runs.read(home, OTHER)
    assert output_manifest.rows(run) == []
    assert any("at most" in line for line in output_manifest.problems(run))
