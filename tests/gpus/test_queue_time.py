"""How long a run stood in the queue is told apart from how long it took to start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from conftest import eventually
from timing import check_sum

if TYPE_CHECKING:
    from .conftest import Machine

WAITED_S = 1.5


def test_the_queue_has_a_part_of_its_own(machine: Machine) -> None:
    holder = machine.begin("--gpus", "2")
    assert holder.pid
    waiting = machine.begin("--gpus", "1")
    first = waiting.await_event("queued")
    eventually(lambda: _seconds_since(waiting.events()[0]) > WAITED_S)
    holder.end()
    assert waiting.pid
    found = waiting.end()["ledger"]
    check_sum(found)
    stood = (waiting.await_event("gpu_taken")["mono_ns"] - first["mono_ns"]) / 1e9
    assert found["parts"]["queue"] > stood - 0.01
    assert stood > WAITED_S / 2
    assert found["parts"]["start"] < found["wall_s"] - found["parts"]["queue"]


def _seconds_since(event: dict[str, object]) -> float:
    return (time.monotonic_ns() - int(str(event["mono_ns"]))) / 1e9
