"""Faults of users without kills: two clients on one run, cancels, and repeated Ctrl-C."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

from conftest import alive, eventually
from faults import kills
from faults.campaign import Kill, Stages
from faults.oracles import judge

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Result
    from faults.stage import Stage


def races(place: Path, rng: random.Random, times: int) -> list[Kill]:
    """Two clients stream one run and two cancel it, sometimes as it ends by itself: all complete, it ends once."""
    stages = Stages(place)
    done = []
    for _ in range(times):
        stage = stages.next()
        run_id = stage.start_run(rng.choice((10, 20, 100_000)), 0.01)
        uid = stage.uid_of(run_id)
        stage.meddled.add(uid)
        started = [stage.start("logs", "-f", "-r", run_id) for _ in range(2)]
        time.sleep(rng.uniform(0, 0.2))
        started += [stage.start("cancel", "-r", run_id) for _ in range(2)]
        results = [stage.heard(kills.finish(process)) for process in started]
        wrong = judge(stage)
        log = (stage.attempt_of(uid) / "log").read_bytes()
        wrong += [f"O4: a client saw {len(seen.out)} of {len(log)} bytes" for seen in results[:2] if seen.out != log]
        wrong += [f"O9: cancel says {asked}" for asked in results[2:] if asked.code != 0]
        done.append(Kill("two clients stream and cancel one run", run_id, wrong))
    return [*done, *stages.last_words()]


class Cancel(NamedTuple):
    """A cancelled family: how long until its head was told to end, and what is wrong."""

    kill: Kill
    seconds: float


def families(place: Path, rng: random.Random, times: int) -> list[Cancel]:
    """Cancel leaves no process, not even daemons that have left everything behind, and some that do not listen."""
    stages = Stages(place)
    done = []
    for _ in range(times):
        stage = stages.next()
        size = rng.randint(1, 6)
        run_id = stage.start_run(size, script="family.py")
        uid = stage.uid_of(run_id)
        stage.meddled.add(uid)
        eventually(lambda uid=uid, size=size, stage=stage: len(_family(stage, uid)) == size)  # type: ignore[misc]
        family = _family(stage, uid)
        asked = time.monotonic_ns()
        stage.say("cancel", "-r", run_id)
        wrong = judge(stage)
        wrong += [f"O6: {pid} of {len(family)} outlived its run" for pid in family if alive(pid)]
        status = next(record["status"] for record in stage.records() if record["uid"] == uid)
        if status != "Canceled":
            wrong.append(f"O3: canceled, and it is {status}")
        told = int((stage.truth / f"{uid}.term").read_text().split()[0])
        done.append(Cancel(Kill("a family is canceled", run_id, wrong), (told - asked) / 1e9))
    return [*done, *(Cancel(kill, 0.0) for kill in stages.last_words())]


def _family(stage: Stage, uid: str) -> list[int]:
    path = stage.truth / f"{uid}.family"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def storms(place: Path, rng: random.Random, times: int) -> list[Kill]:
    """Ctrl-C, once or as a storm, at any moment of a submit: the person is told nothing wrong, the run goes on."""
    stages = Stages(place)
    done = []
    for _ in range(times):
        stage = stages.next()
        process = stage.start(*stage.words(lines=30), bufsize=0)
        said = b""
        if rng.random() < 0.5:
            assert process.stdout is not None
            said = process.stdout.readline()
        moment = rng.uniform(0, 0.15)
        time.sleep(moment)
        kills.storm(process, rng)
        result = kills.finish(process, said)
        if _died_as_python_started(result):
            continue
        stage.heard(result)
        wrong = _unseemly(result) + judge(stage)
        done.append(Kill("Ctrl-C", f"{moment * 1000:.0f} ms on", wrong))
    return [*done, *stages.last_words()]


def _died_as_python_started(result: Result) -> bool:
    """Ctrl-C before the first line of ours has run is answered by Python itself."""
    return "KeyboardInterrupt" in result.err and "cli/main.py" not in result.err


def _unseemly(result: Result) -> list[str]:
    """What a person should not have to see after Ctrl-C."""
    wrong = [] if "Traceback" not in result.err else [f"O9: {result.err}"]
    if result.code not in (0, 130, -2):
        wrong.append(f"O9: Ctrl-C ended it with {result.code}: {result.err}")
    return wrong
