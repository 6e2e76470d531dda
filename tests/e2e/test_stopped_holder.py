"""A stopped process that holds a lock of the store: other commands answer, or name that process within seconds."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, eventually
from holdfast.errors import LockedError
from holdfast.runner.machine import environment
from holdfast.store.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk, Result

HOLDS = """
import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
if sys.argv[2] == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
sys.stdin.read()
"""
LIMIT_S = 10.0


class Holders:
    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def hold(self, path: Path, state: str = "stopped") -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(path), state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        if state == "stopped":
            eventually(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        return process.pid

    def release(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        self._processes.clear()


@pytest.fixture
def holders() -> Iterator[Holders]:
    found = Holders()
    yield found
    found.release()


def timed(desk: Desk, *words: str) -> tuple[Result, float]:
    began = time.monotonic()
    done = desk.holdfast(*words)
    return done, time.monotonic() - began


def test_commands_answer_without_the_index_that_a_stopped_process_has_locked(desk: Desk, holders: Holders) -> None:
    desk.script("print('one line')\n")
    assert desk.submit("train.py").code == 0
    expected = desk.holdfast("history", "list", "-o", "json").json
    pid = holders.hold(desk.home / "locks" / "index")
    for words in (("history", "list", "-o", "json"), ("logs", "-r", "1")):
        done, took = timed(desk, *words)
        assert done.code == 0, done.err
        assert took < LIMIT_S
        assert f"the index is not used: process {pid}" in done.err
        assert "which is stopped" in done.err
        assert words[0] == "logs" or done.json == expected
    done, took = timed(desk, "submit", "-c", "local", "train.py")
    assert (done.code, took < LIMIT_S) == (0, True), done.err
    verified = desk.holdfast("store", "verify")
    assert f"process {pid}" in verified.text + verified.err
    rebuilt = desk.holdfast("store", "reindex")
    assert rebuilt.code == 74
    assert f"kill -CONT {pid}" in rebuilt.err
    holders.release()
    assert len(desk.holdfast("history", "list", "-o", "json").json) == 2


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        ("ids", ("submit", "-c", "local", "train.py")),
        ("client", ("history", "tag", "-r", "1", "good")),
        ("settings", ("config", "defaultTarget", "local")),
        ("assets", ("history", "promote", "-r", "1", "-ap", "outputs/model.bin", "-n", "model")),
        ("gather", ("history", "import", "runs.zip")),
    ],
)
def test_command_names_the_stopped_process_and_changes_nothing(
    desk: Desk, holders: Holders, lock: str, words: tuple[str, ...]
) -> None:
    desk.script("open('outputs/model.bin', 'w').write('m')\n")
    assert desk.submit("train.py").code == 0
    assert desk.holdfast("history", "export", "-r", "1", "--to", "runs.zip").code == 0
    before = desk.holdfast("history", "list", "-o", "json").json
    if lock == "gather":
        assert desk.holdfast("history", "delete", "-r", "1", "--yes").code == 0
        before = []
    path = desk.home / "locks" / lock
    pid = holders.hold(path)
    done, took = timed(desk, *words)
    assert done.code == 74, done.err
    assert took < LIMIT_S
    assert str(path) in done.err
    assert f"process {pid} (" in done.err
    assert f"kill -CONT {pid}" in done.err
    assert desk.holdfast("history", "list", "-o", "json").json == before
    holders.release()
    done = desk.holdfast(*words)
    assert done.code == 0, done.err


def test_submit_says_that_the_run_has_started_when_it_cannot_be_noted(desk: Desk, holders: Holders) -> None:
    desk.script("print('it ran')\n")
    pid = holders.hold(desk.home / "locks" / "client")
    done, took = timed(desk, "submit", "-c", "local", "train.py")
    assert (done.code, took < LIMIT_S) == (74, True)
    assert "the run has started, but this could not be recorded" in done.err
    assert f"process {pid}" in done.err
    assert desk.wait_for_end("1")["status"] == "Completed"


def test_store_is_not_made_while_a_stopped_process_has_its_lock(desk: Desk, holders: Holders) -> None:
    pid = holders.hold(desk.home / "locks" / "store")
    desk.script("print(1)\n")
    done, took = timed(desk, "submit", "-c", "local", "train.py")
    assert (done.code, took < LIMIT_S) == (74, True)
    assert f"process {pid}" in done.err


def test_submit_names_the_stopped_sweep_of_objects(desk: Desk, holders: Holders) -> None:
    desk.script("print(1)\n")
    assert desk.submit("train.py").code == 0
    pid = holders.hold(next((desk.home / "objects" / "tmp").glob("*lock*")))
    desk.script("print(2)\n")
    done, took = timed(desk, "submit", "-c", "local", "train.py")
    assert (done.code, took < LIMIT_S) == (74, True), done.err
    assert f"process {pid}" in done.err


def test_runs_are_shown_while_a_stopped_process_has_the_mirror(desk: Desk, holders: Holders) -> None:
    desk.script(f"type: local\nroot: {desk.home.parent}/there\n", "aml_config/there.compute")
    desk.trust("there")
    desk.script("print(1)\n")
    assert desk.holdfast("submit", "-c", "there", "--no-wait", "train.py").code == 0
    pid = holders.hold(desk.home / "locks" / "mirror")
    done, took = timed(desk, "history", "list", "-o", "json")
    assert (done.code, took < LIMIT_S, len(done.json)) == (0, True, 1), done.err
    assert f"process {pid}" in done.err
    holders.release()
    assert desk.wait_for_end("1")["status"] == "Completed"


def test_living_holder_is_given_up_after_the_patience(tmp_path: Path, holders: Holders) -> None:
    path = tmp_path / "lock"
    pid = holders.hold(path, "alive")
    with pytest.raises(LockedError) as caught, Lock(str(path), patience=0.3):
        raise AssertionError("it is held")
    assert caught.value.by.startswith(f"process {pid} (")
    assert "stopped" not in caught.value.by
    assert f"kill {pid}" in caught.value.hint
    holders.release()
    with Lock(str(path), patience=0.3):
        assert Path(path).exists()


def test_wait_goes_on_while_the_lock_changes_hands(tmp_path: Path, holders: Holders) -> None:
    """Three that hold it for most of the patience each are longer than the patience."""
    path = tmp_path / "lock"
    holds = "import fcntl, os, sys, time\nfd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
    holds += (
        "for n in range(int(sys.argv[2])):\n    if os.fork() == 0:\n        fcntl.flock(fd := os.open(sys.argv[1], 2),"
    )
    holds += " fcntl.LOCK_EX)\n        time.sleep(0.7)\n        os._exit(0)\n"
    assert any(_waits(path, holds) > 1.2 for _ in range(10)), "each time it came between two of them"


def _waits(path: Path, holds: str) -> float:
    """How long a lock is waited for that several processes hold in turn; an error where the wait is given up."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", holds, str(path), "4"], check=True)
    descriptor = os.open(path, os.O_RDWR)
    try:
        eventually(lambda: not _can_lock(descriptor))
    finally:
        os.close(descriptor)
    with Lock(str(path), patience=1.2):
        return time.monotonic() - began


def _can_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return True
    except BlockingIOError:
        return False


def test_terminal_shows_which_process_is_waited_for(desk: Desk, holders: Holders) -> None:
    desk.script("print(1)\n")
    assert desk.submit("train.py").code == 0
    pid = holders.hold(desk.home / "locks" / "settings")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(HOLDFAST), "config", "defaultTarget", "local"], cwd=desk.project, env=desk.env, stderr=theirs
    )
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    assert shown.startswith(f"waiting for process {pid} ("), shown
    assert process.wait(20) == 74
    os.close(ours)


def test_environment_is_not_awaited_for_ever_when_its_builder_is_stopped(
    tmp_path: Path, holders: Holders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_STOPPED_S", 1.0)
    pid = holders.hold(tmp_path / "locks" / "env-k")
    told: list[object] = []
    with pytest.raises(environment.CannotBuild, match=f"kill -CONT {pid}"):
        environment.ensure(
            os.fsencode(tmp_path), "r", {"key": "k"}, b"", lambda said: told.append(said["name"]), lambda: False
        )
    assert str(told[0]).startswith(f"another run is building this environment: process {pid} (")
    os.kill(pid, signal.SIGCONT)
    with pytest.raises(environment.Stopped):
        environment.ensure(
            os.fsencode(tmp_path), "r", {"key": "k"}, b"", lambda said: told.append(said["name"]), lambda: len(told) > 1
        )
    assert "stopped" not in str(told[-1])
