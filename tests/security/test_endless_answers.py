"""A target that never stops sending costs a command that looks as much time as one that sends nothing."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.engine.connection.channel import LOOKING, Patience, RunnerChannel
from holdfast.engine.runs.follow import Follower
from holdfast.errors import MalformedAnswerError, SilentError, UnfinishedError
from holdfast.runner import wire
from holdfast.store.home import Home
from security.hostile import HostileHost, channel, end, piece

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.model import Json
    from security.hostile import Answers

UID = "a" * 32
QUICK = LOOKING._replace(hello=1.0, answer=0.3, total=1.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(str(tmp_path / "store"), "1" * 32)
    os.makedirs(found.run(UID))
    with open(found.run(UID, "run.json"), "w") as target:
        json.dump({"uid": UID, "run_id": "x_1", "run_number": 1, "project_id": "x", "max_log": 100_000}, target)
    return found


def _unsolicited(_request: Json) -> Iterator[bytes]:
    while True:
        yield wire.pack({"re": 0, "x": "y" * 100_000})


def _log(request: Json) -> Iterator[bytes]:
    data = b"x" * 1000
    for count in range(10**9):
        yield piece(request, "runner.log", data, offset=count * len(data))
        time.sleep(0.001)


def test_commands_that_look_have_a_limit_for_everything() -> None:
    assert LOOKING.total is not None
    assert LOOKING.total <= 8.0


@pytest.mark.parametrize("is_renewed", [True, False])
def test_frames_that_were_not_asked_for_extend_no_deadline(home: Home, is_renewed: bool) -> None:
    patience = QUICK._replace(is_renewed=is_renewed, total=None)
    with pytest.raises(SilentError):
        _within(5.0, home, _unsolicited, patience)


def test_what_came_until_the_limit_is_kept(home: Home) -> None:
    with pytest.raises(UnfinishedError):
        _within(5.0, home, _log, QUICK)
    assert os.path.getsize(home.run(UID, "a1", "runner.log")) > 1000


def test_noise_before_the_first_answer_extends_no_limit() -> None:
    class Noisy(HostileHost):
        def _speak(self, asked: Json, heard: int, says: int, complains: int) -> None:
            try:
                while True:
                    wire.write_all(says, b"welcome\n")
                    time.sleep(0.01)
            except (wire.Closed, OSError):
                for fd in (heard, says, complains):
                    os.close(fd)

    began = time.monotonic()
    talk = RunnerChannel(Noisy(lambda _request: iter(())), "python3", None, "evil", patience=QUICK)
    with pytest.raises(SilentError):
        talk.hello()
    talk.close()
    assert time.monotonic() - began < 5.0


def test_slow_answer_is_waited_for_as_long_as_it_comes(home: Home) -> None:
    """At 20 kB/s, in a conversation that has no limit as a whole."""

    def answers(request: Json) -> Iterator[bytes]:
        data = piece(request, "runner.log", b"x" * 20_000) + end(request, state="closed")
        for start in range(0, len(data), 2000):
            yield data[start : start + 2000]
            time.sleep(0.1)

    assert _within(10.0, home, answers, Patience(1.0, 0.3, is_renewed=False)) == "closed"


def test_log_without_end_is_given_up_and_not_asked_for_again(home: Home) -> None:
    asked: list[Json] = []

    def answers(request: Json) -> Iterator[bytes]:
        asked.append(request)
        if "4611686018427387904" in str(request["have"]):
            yield end(request, state="closed")
        for count in range(10**9):
            yield piece(request, "log", b"x" * 1_000_000, offset=count * 1_000_000)

    with pytest.raises(MalformedAnswerError, match="more data than the limit"):
        _follow(home, channel(answers))
    assert os.path.getsize(home.run(UID, "a1", "log")) == 100_000
    assert _follow(home, channel(answers)) == "closed"
    assert len(asked) == 2


def _within(seconds: float, home: Home, answers: Answers, patience: Patience) -> str:
    """Stops a target that would go on, so that a failure is told and does not hang."""
    began, stopped = time.monotonic(), threading.Event()

    def limited(request: Json) -> Iterator[bytes]:
        for data in answers(request):
            if stopped.is_set() or time.monotonic() - began > 4 * seconds:
                raise OSError("enough")
            yield data

    try:
        return _follow(home, RunnerChannel(HostileHost(limited), "python3", None, "evil", patience=patience))
    finally:
        stopped.set()
        assert time.monotonic() - began < seconds


def _follow(home: Home, opened: RunnerChannel) -> str:
    follower = Follower(home, UID, lambda _block: None)
    try:
        return follower.follow(opened, wait=False)
    finally:
        follower.close()
        opened.close()
