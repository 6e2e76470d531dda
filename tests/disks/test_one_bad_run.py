"""A run whose files the runner cannot use costs one line; other runs of its target are settled all the same."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from conftest import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Desk


def _replace_events(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        (run / "a1" / "events.jsonl").unlink()
        make(run / "a1" / "events.jsonl")

    return change


DAMAGES: dict[str, Callable[[Path], None]] = {
    "named pipe": _replace_events(os.mkfifo),
    "device": _replace_events(lambda path: path.symlink_to("/dev/full")),
    "folder": _replace_events(lambda path: path.mkdir()),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_one_bad_run_does_not_keep_others_from_being_settled(desk: Desk, name: str) -> None:
    desk.script("print(1)")
    desk.script("import time\ntime.sleep(300)\n", "wait.py")
    assert desk.submit("train.py").code == 0
    bad = desk.home / "runs" / str(desk.record("1")["uid"])
    assert desk.submit("--no-wait", "wait.py").code == 0
    assert desk.submit("--no-wait", "wait.py").code == 0
    dead = [path for path in (desk.home / "runs").iterdir() if path != bad]
    for run in dead:
        _kill_everything(run / "a1" / "events.jsonl")
    DAMAGES[name](bad)
    for index in desk.home.glob("index*"):
        index.unlink()
    result = desk.holdfast("history", "list", "-o", "json")
    states = {row["run_number"]: row["status"] for row in result.json}
    assert (states[2], states[3]) == ("Lost", "Lost"), result
    assert "unreachable" not in result.err
    assert result.err.count("WARNING") == 1, result.err
    assert states[1] == "Damaged"


def _kill_everything(events: Path) -> None:
    eventually(lambda: events.exists() and events.read_bytes().count(b"\n") >= 2)
    first, second = [json.loads(line) for line in events.read_bytes().splitlines()][:2]
    for pid in (first["guardian"], first["pid"], second["pid"]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
