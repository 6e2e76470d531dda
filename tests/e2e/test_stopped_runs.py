"""A run whose supervisor and guardian are both stopped is ended by the next command, which says so."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from conftest import alive, eventually
from holdfast.runner.machine import processes

if TYPE_CHECKING:
    from conftest import Desk


def test_cancel_ends_a_run_with_stopped_watchers_as_canceled(desk: Desk) -> None:
    watchers = _stopped_run(desk)
    result = desk.holdfast("cancel")
    assert result.code == 0
    assert "ended by this command: Canceled" in result.err, result
    record = desk.record()
    assert (record["status"], record["exit_code"]) == ("Canceled", 137), record
    assert not any(map(alive, watchers))
    assert "has already ended: Canceled" in desk.holdfast("cancel").err


def test_list_tells_that_it_ended_a_run_with_stopped_watchers(desk: Desk) -> None:
    _stopped_run(desk)
    result = desk.holdfast("runs")
    assert result.code == 0
    assert "was ended by this command" in result.err, result
    assert "ended by" not in desk.holdfast("runs").err


def _stopped_run(desk: Desk) -> list[int]:
    desk.script("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    assert desk.submit("--no-wait", "train.py").code == 0
    eventually(lambda: desk.holdfast("logs").out == b"up\n")
    accepted = desk.events()[0]
    watchers = [int(accepted[name]) for name in ("guardian", "pid")]
    for pid in watchers:
        os.kill(pid, signal.SIGSTOP)
    eventually(lambda: all(map(processes.is_stopped, watchers)))
    return watchers
