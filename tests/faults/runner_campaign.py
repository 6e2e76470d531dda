"""Kills on the runner's side: the conversation, the supervisor, the guardian, the script, and whole families of it."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

from conftest import alive
from faults import kills
from faults.campaign import Kill, Size, Stages, draw
from faults.oracles import judge
from faults.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path


def sessions(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """The runner's side of the conversation dies: the client says so, and the run is whole or was never started."""
    stages = Stages(place)
    stage = stages.fresh()
    kills.session_under_strace(stage, stage.words(lines=3), None)
    done = []
    for point in draw(rng, kills.boundaries(stage.place / "trace"), size):
        stage = stages.next()
        result = kills.session_under_strace(stage, stage.words(lines=3), point)
        killed = b"killed by SIGKILL" in (stage.place / "trace").read_bytes()
        wrong = judge(stage)
        if result.code == 0 and killed and not _is_completed(stage):
            wrong.append(f"O9: the client says all is well: {result}")
        if killed:
            done.append(
                Kill("runner: its side of the conversation", f"{point.call} {point.number} ({point.path})", wrong)
            )
    return [*done, *stages.last_words()]


def first_sessions(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """The same where the runner is not there yet: it dies while it unpacks itself."""
    stage = Stage(place / "stage")
    stage.forget()
    kills.session_under_strace(stage, stage.words(lines=3), None)
    done = []
    for point in draw(rng, kills.boundaries(stage.place / "trace"), size):
        stage.wait_until_all_ended()
        stage.forget()
        kills.session_under_strace(stage, stage.words(lines=3), point)
        killed = b"killed by SIGKILL" in (stage.place / "trace").read_bytes()
        wrong = judge(stage, thorough=True)
        if killed:
            done.append(Kill("runner: while it unpacks itself", f"{point.call} {point.number} ({point.path})", wrong))
    return done


def _is_completed(stage: Stage) -> bool:
    newest = max(stage.records(), key=lambda record: int(record["run_number"]))
    return bool(newest["status"] == "Completed")


def supervisors(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """At every boundary from the script's first word to the closing event."""
    stages = Stages(place)
    done = []
    points = _boundaries_of(stages.fresh(), "pid")
    for point in draw(rng, points, size):
        stage = stages.next()
        uid, gate = _held_run(stage)
        with kills.Attached(stage, stage.await_event(uid, "accepted")["pid"], point) as strace:
            gate.touch()
            stage.wait_until_all_ended()
        if strace.killed_it():
            done.append(Kill("runner: supervisor", f"{point.call} {point.number} ({point.path})", judge(stage)))
    return [*done, *stages.last_words()]


def guardians(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """The guardian dies while it closes for a dead supervisor: only the next command is left."""
    stages = Stages(place)
    points = _boundaries_of(stages.fresh(), "guardian")
    done = []
    for point in draw(rng, points, size):
        stage = stages.next()
        uid, gate = _held_run(stage)
        first = stage.await_event(uid, "accepted")
        with kills.Attached(stage, first["guardian"], point) as strace:
            os.kill(first["pid"], signal.SIGKILL)
            stage.wait_until_all_ended()
        gate.touch()
        if strace.killed_it():
            done.append(Kill("runner: guardian", f"{point.call} {point.number} ({point.path})", judge(stage)))
    return [*done, *stages.last_words()]


def _boundaries_of(stage: Stage, who: str) -> list[kills.Point]:
    uid, gate = _held_run(stage)
    first = stage.await_event(uid, "accepted")
    with kills.Attached(stage, first[who]) as strace:
        if who == "guardian":
            os.kill(first["pid"], signal.SIGKILL)
        gate.touch()
        stage.wait_until_all_ended()
    return kills.boundaries(strace.trace)


def _held_run(stage: Stage) -> tuple[str, Path]:
    """A run whose script waits for a file; the file."""
    gate = stage.place / f"gate-{random.getrandbits(64):x}"
    uid = stage.uid_of(stage.start_run(5, 0.001, "-e", f"WAIT={gate}"))
    stage.await_event(uid, "started")
    stage.meddled.add(uid)
    return uid, gate


def watchers_in_time(place: Path, rng: random.Random, size: Size) -> list[Kill]:
    """Supervisor, guardian, script, or several of them, at any moment from the claim on; a client watches."""
    stages = Stages(place)
    done = []
    for _ in range(size.moments):
        stage = stages.next()
        before = set(stage.requests())
        process = stage.start(*stage.words(lines=30), bufsize=0)
        assert process.stdout is not None
        said = process.stdout.readline()
        uid = (set(stage.requests()) - before).pop()
        stage.meddled.add(uid)
        victims, names = _choose(stage, uid, rng)
        moment = rng.uniform(0, 0.2)
        time.sleep(moment)
        for pid in victims:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        result = kills.finish(process, said)
        stage.heard(result)
        wrong = judge(stage)
        code = next(record["exit_code"] for record in stage.records() if record["uid"] == uid)
        if result.code != code:
            wrong.append(f"O9: the client exits with {result.code}, the run's exit code is {code}: {result.err}")
        done.append(Kill(f"runner: {names}", f"{moment * 1000:.0f} ms after its first event", wrong))
    return [*done, *stages.last_words()]


def _choose(stage: Stage, uid: str, rng: random.Random) -> tuple[list[int], str]:
    first = stage.await_event(uid, "accepted")
    known = {"supervisor": [first["pid"]], "guardian": [first["guardian"]]}
    name = rng.choice(("supervisor", "guardian", "supervisor and guardian", "script"))
    if name == "script":
        return [stage.await_event(uid, "started")["pid"]], name
    return [pid for word in name.split(" and ") for pid in known[word]], name
