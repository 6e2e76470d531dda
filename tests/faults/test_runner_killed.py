"""The runner's own processes, killed: the family is ended and the outcome is true, or unknown (F30, F31, F63)."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from faults.campaign import Size
from faults.oracles import judge
from faults.runner_campaign import first_sessions, guardians, sessions, supervisors, watchers_in_time
from faults.stage import Stage

if TYPE_CHECKING:
    from faults.conftest import Draw


def test_runner_connection_killed_at_each_step(draw: Draw) -> None:
    draw.check(sessions(draw.place, draw.rng, Size(8, 0)))


def test_a_runner_that_unpacks_itself(draw: Draw) -> None:
    draw.check(first_sessions(draw.place, draw.rng, Size(6, 0)))


def test_supervisor_killed_at_each_step(draw: Draw) -> None:
    draw.check(supervisors(draw.place, draw.rng, Size(8, 0)))


def test_guardian_killed_at_each_step(draw: Draw) -> None:
    draw.check(guardians(draw.place, draw.rng, Size(None, 0)))


def test_any_of_them_at_any_moment(draw: Draw) -> None:
    draw.check(watchers_in_time(draw.place, draw.rng, Size(0, 8)))


def test_run_whose_watchers_are_stopped_is_ended_by_the_next_command(draw: Draw) -> None:
    stage = Stage(draw.place / "stage")
    uid = stage.uid_of(stage.start_run(20, 0.01))
    first = stage.await_event(uid, "started") and stage.await_event(uid, "accepted")
    for pid in (first["guardian"], first["pid"]):
        os.kill(pid, signal.SIGSTOP)
    half = stage.attempt_of(uid) / "metrics" / "packages.json.0123456789abcdef.tmp"
    half.write_text("{")
    stage.meddled.add(uid)
    assert [record["status"] for record in stage.records() if record["uid"] == uid] == ["Lost"]
    assert judge(stage) == []
