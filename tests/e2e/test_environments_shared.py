"""Several who want the same environment, and builders that are killed: one build, never half an environment."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import managed
from conftest import eventually
from lab.server import Fault, serve
from managed import builds, environments, is_whole, kill_a_builder, manage, requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from lab.server import Server

SAYS = "import tinypip; print('with', tinypip.WHOLE)\n"
WHEEL = "/files/tinypip-1.1-py3-none-any.whl"


@pytest.fixture
def index() -> Iterator[Server]:
    with serve(managed.index().path) as server:
        yield server


def test_four_submits_are_one_build_and_four_runs(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script(SAYS)
    requirements(desk, index.url, "tinypip")
    asked = [desk.start("submit", "-c", "local", "train.py") for _ in range(4)]
    said = [process.communicate(timeout=120) for process in asked]
    assert [process.returncode for process in asked] == [0] * 4, said
    assert all(b"with 1.1" in out for out, _ in said)
    assert len(environments(desk)) == 1
    assert builds(desk) == 1


def test_who_waits_takes_over_from_a_killed_builder(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script(SAYS)
    requirements(desk, index.url, "tinypip")
    assert desk.holdfast("env", "lock").code == 0
    index.faults[WHEEL] = Fault(delay=60)
    index.paths.clear()
    with desk.start("experiment", "prepare") as first:
        eventually(lambda: WHEEL in index.paths)
        assert desk.submit("--no-wait", "train.py").code == 0
        eventually(lambda: any(event.get("phase") == "wait" for event in desk.events()))
        index.faults.clear()
        for pid in _children(first.pid):
            os.kill(pid, signal.SIGKILL)
        first.communicate(timeout=60)
    assert first.returncode != 0
    assert desk.wait_for_end()["status"] == "Completed"
    assert desk.holdfast("logs").text == "with 1.1\n"
    assert is_whole(desk)


def test_a_build_is_canceled_with_its_run(desk: Desk, index: Server) -> None:
    manage(desk)
    desk.script(SAYS)
    requirements(desk, index.url, "tinypip")
    assert desk.holdfast("env", "lock").code == 0
    index.faults[WHEEL] = Fault(delay=60)
    index.paths.clear()
    assert desk.submit("--no-wait", "train.py").code == 0
    eventually(lambda: WHEEL in index.paths)
    assert desk.holdfast("cancel", "-r", "last").code == 0
    assert desk.wait_for_end()["status"] == "Canceled"
    assert environments(desk) == []
    assert list((desk.home / "envs").iterdir()) == []
    index.faults.clear()
    assert "with 1.1" in desk.submit("train.py").text


@pytest.mark.timeout(240)
def test_killed_builders_never_leave_a_broken_environment(desk: Desk, index: Server) -> None:
    manage(desk)
    requirements(desk, index.url, "tinydep", "tinytale")
    assert desk.holdfast("env", "lock").code == 0
    random = Random(5)
    for _ in range(15):
        kill_a_builder(desk, random.uniform(0, 1.5))
        assert environments(desk) == [] or is_whole(desk)
    assert desk.holdfast("experiment", "prepare").code == 0
    assert is_whole(desk)


def _children(client: int) -> list[int]:
    """What the client started and waits for; not the builder, which has to notice by itself."""
    tasks = list(Path(f"/proc/{client}/task").iterdir())
    found = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    assert found
    return found
