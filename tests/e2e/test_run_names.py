"""Which run a name means: never one of another project by default, and never one of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import eventually

if TYPE_CHECKING:
    from conftest import Desk

COMMANDS = (
    ("cancel",),
    ("status",),
    ("info",),
    ("logs",),
    ("history", "tag", "kept"),
    ("history", "note", "text"),
    ("history", "archive"),
    ("history", "delete", "-r", "last", "--yes"),
    ("experiment", "return"),
)


def test_last_never_means_a_run_of_another_project(desk: Desk) -> None:
    desk.script("import time\ntime.sleep(600)\n")
    assert desk.submit("--no-wait", "train.py").code == 0
    eventually(lambda: desk.record()["status"] == "Running")
    empty = desk.project.parent / "empty"
    empty.mkdir()
    for words in COMMANDS:
        result = desk.holdfast(*words, cwd=empty)
        assert (result.code, result.out) == (2, b""), (words, result)
        assert "this project has no runs" in result.err
    record = desk.record()
    assert (record["status"], record["tags"], record["description"], record["hidden"]) == ("Running", {}, None, False)
    assert desk.holdfast("cancel").code == 0
