"""What people add to runs afterwards: tags, notes, and runs out of sight."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk


def _runs(desk: Desk, count: int) -> None:
    desk.script("print('hello')")
    for _ in range(count):
        desk.submit("train.py")


def _numbers(desk: Desk, *words: str) -> list[int]:
    return [row["run_number"] for row in desk.holdfast("history", "list", "-o", "json", *words).json]


def test_tags_are_found_by_and_taken_away(desk: Desk) -> None:
    _runs(desk, 3)
    assert desk.holdfast("history", "tag", "-r", "1", "-r", "2", "dataset=v3", "fold=5", "kept").code == 0
    assert desk.record("1")["tags"] == {"dataset": "v3", "fold": 5, "kept": True}
    assert _numbers(desk, "--where", "tags.dataset = 'v3'") == [2, 1]
    assert _numbers(desk, "--where", "tags.fold > 4") == [2, 1]
    desk.holdfast("history", "tag", "-r", "1", "--remove", "dataset", "fold=6")
    assert desk.record("1")["tags"] == {"fold": 6, "kept": True}
    assert _numbers(desk, "--where", "tags.dataset = 'v3'") == [2]
    card = desk.holdfast("info", "-r", "1", "-o", "table").text
    assert "fold=6, kept\n" in card
    assert desk.holdfast("store", "verify").code == 0


def test_the_lines_are_as_documented(desk: Desk) -> None:
    _runs(desk, 1)
    desk.holdfast("history", "tag", "a=b", "--remove", "c")
    desk.holdfast("history", "note", "looks good")
    desk.holdfast("history", "archive")
    lines = [json.loads(line) for line in (desk.attempt().parent / "client.jsonl").read_text().splitlines()]
    told = [{key: value for key, value in line.items() if key not in ("v", "wall_ns", "crc")} for line in lines]
    assert told[-3:] == [
        {"type": "tags", "tags": {"a": "b", "c": None}},
        {"type": "note", "text": "looks good"},
        {"type": "hidden", "hidden": True},
    ]


def test_the_last_note_counts(desk: Desk) -> None:
    _runs(desk, 1)
    for text in ("first", "second: naïve\nbut good"):
        desk.holdfast("history", "note", text)
    assert desk.record()["description"] == "second: naïve\nbut good"
    desk.holdfast("history", "note", "")
    assert desk.record()["description"] is None


def test_archived_runs_are_out_of_sight_and_not_gone(desk: Desk) -> None:
    _runs(desk, 3)
    assert desk.holdfast("history", "archive", "-r", "1", "-r", "3").code == 0
    assert _numbers(desk) == [2]
    assert _numbers(desk, "--limit", "5") == [2]
    assert _numbers(desk, "--archived") == [3, 2, 1]
    assert _numbers(desk, "--archived", "--where", "hidden = true") == [3, 1]
    assert desk.record("3")["hidden"] is True
    desk.holdfast("history", "unarchive", "-r", "3")
    assert _numbers(desk) == [3, 2]
    desk.holdfast("store", "reindex")
    assert _numbers(desk) == [3, 2]


def test_nothing_is_written_where_one_name_is_wrong(desk: Desk) -> None:
    _runs(desk, 1)
    before = sorted(path.name for path in desk.attempt().parent.iterdir())
    refused = desk.holdfast("history", "tag", "-r", "1", "-r", "77", "a=b")
    assert (refused.code, "77" in refused.err) == (2, True)
    assert desk.holdfast("history", "tag", "=x").code == 2
    long = desk.holdfast("history", "tag", f"a={'x' * 100_000}")
    assert (long.code, "the value of the tag a has more than 6000 characters" in long.err) == (2, True)
    assert len(long.err) < 1000
    assert desk.submit("--tag", f"a={'x' * 100_000}", "train.py").code == 2
    assert desk.holdfast("history", "tag").code == 2
    assert sorted(path.name for path in desk.attempt().parent.iterdir()) == before
    assert desk.record()["tags"] == {}


def test_number_before_the_tag_or_note_is_the_run_and_the_answer_names_it(desk: Desk) -> None:
    _runs(desk, 2)
    tagged = desk.holdfast("tag", "1", "x=1")
    assert tagged.err.startswith("run 1: "), tagged.err
    assert desk.record("1")["tags"] == {"x": 1}
    assert not desk.record("2")["tags"]
    assert desk.holdfast("note", "1", "the first").code == 0
    assert desk.record("1")["description"] == "the first"
    assert desk.holdfast("tag", "1").code == 2
    assert desk.holdfast("exec", "1", "pwd").text.strip() == str(desk.attempt("1"))
