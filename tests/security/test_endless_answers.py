"""A target that never stops sending costs a command that looks as much time as one that sends nothing."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from holdfast.engine.connection import transport
from holdfast.engine.connection.channel import ASKING, LOOKING, SEARCHING, Patience, RunnerChannel
from holdfast.engine.runs.follow import Follower
from holdfast.errors import MalformedAnswerError, SilentError, UnfinishedError, UnreachableError
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


def _beats(_request: Json) -> Iterator[bytes]:
    while True:
        yield wire.pack({"beat": True})
        time.sleep(0.02)


def _progress(request: Json) -> Iterator[bytes]:
    while True:
        yield wire.pack({"re": request["id"], "progress": "y" * 1000})
        time.sleep(0.001)


@pytest.mark.parametrize("answers", [_beats, _progress])
def test_heartbeats_alone_end_a_question(answers: Answers) -> None:
    """Also when they look like parts of an answer that never ends."""
    patience = Patience(5.0, 60.0, question=0.5)
    with pytest.raises(SilentError, match=r"connected, and no answer to the request 'gpus' within 0\.5 s") as raised:
        _asked(answers, patience, "gpus")
    assert raised.value.answer == "it sent only heartbeats"


def _one_slow_answer(request: Json) -> Iterator[bytes]:
    data = end(request, sets=["y" * 10_000_000])
    for start in range(0, len(data), 2000):
        yield data[start : start + 2000]
        time.sleep(0.01)


def test_answer_that_never_becomes_complete_ends_a_question() -> None:
    """At 200 kB/s, which would give a download its time again."""
    with pytest.raises(SilentError, match="connected, and no answer"):
        _asked(_one_slow_answer, Patience(5.0, 60.0, question=0.5), "gpus")


def test_time_of_the_first_question_begins_with_the_wait_for_hello() -> None:
    class Late(HostileHost):
        def _speak(self, asked: Json, heard: int, says: int, complains: int) -> None:
            time.sleep(0.5)
            super()._speak(asked, heard, says, complains)

    opened = RunnerChannel(Late(_beats), "python3", None, "evil", patience=Patience(20.0, 60.0, question=20.0))
    opened.hello()
    opened._wait_for({"verb": "gpus"}, is_progress=False)
    first = opened._waiting.seconds
    opened._wait_for({"verb": "gpus"}, is_progress=False)
    assert opened._waiting.seconds < first
    opened.close()


def test_commands_that_ask_end_within_ten_seconds() -> None:
    assert ASKING.question is not None
    assert max(ASKING.question, ASKING.hello) < 10.0
    assert SEARCHING.question is not None


@pytest.mark.parametrize("act", ["make", "remove", "verify"])
def test_work_on_data_sets_takes_as_long_as_it_takes(act: str) -> None:
    def answers(request: Json) -> Iterator[bytes]:
        for _ in range(10):
            yield wire.pack({"beat": True})
            time.sleep(0.05)
        yield end(request, state="done")

    assert _asked(answers, Patience(5.0, 60.0, question=0.2), "data", act=act)["state"] == "done"


def test_work_is_waited_for_and_the_user_hears_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "TOLD_S", 0.3)
    told: list[str] = []

    def answers(request: Json) -> Iterator[bytes]:
        for _ in range(20):
            yield wire.pack({"beat": True})
            time.sleep(0.05)
        yield end(request, state="started")

    assert _asked(answers, Patience(5.0, 0.5), "start", told)["state"] == "started"
    assert len(told) == 1
    assert "evil has sent only heartbeats" in told[0]
    assert "'start'" in told[0]


def _asked(answers: Answers, patience: Patience, verb: str, told: list[str] | None = None, **fields: object) -> Json:
    began = time.monotonic()

    def limited(request: Json) -> Iterator[bytes]:
        for data in answers(request):
            if time.monotonic() - began > 10.0:
                raise OSError("enough")
            yield data

    on_quiet = None if told is None else told.append
    opened = RunnerChannel(HostileHost(limited), "python3", None, "evil", patience=patience, on_quiet=on_quiet)
    try:
        return opened.ask(verb, **fields)
    finally:
        opened.close()


def test_what_came_until_the_limit_is_kept(home: Home) -> None:
    with pytest.raises(UnfinishedError):
        _within(5.0, home, _log, QUICK)
    assert os.path.getsize(home.run(UID, "a1", "runner.log")) > 1000


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("line", "pause"), [(b"welcome\n", 0.01), (b"y\n" * 2000, 0.0), (b"y" * 30 + b"\n", 0.001)])
def test_noise_before_the_first_answer_extends_no_limit(line: bytes, pause: float) -> None:
    class Noisy(HostileHost):
        def _speak(self, asked: Json, heard: int, says: int, complains: int) -> None:
            try:
                while True:
                    wire.write_all(says, line)
                    time.sleep(pause)
            except (wire.Closed, OSError):
                for fd in (heard, says, complains):
                    os.close(fd)

    began = time.monotonic()
    talk = RunnerChannel(Noisy(lambda _request: iter(())), "python3", None, "evil", patience=QUICK)
    with pytest.raises(UnreachableError if pause == 0.0 else SilentError):
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


def _frames(request: Json, progress: str) -> Iterator[bytes]:
    """More than a run has files, and then its end."""
    for _ in range(100_010):
        yield wire.pack({"re": request["id"], "progress": progress})
    yield end(request, state="closed")


def test_frames_without_content_are_refused_where_no_run_is_watched(home: Home) -> None:
    with pytest.raises(MalformedAnswerError) as caught:
        _follow(home, channel(lambda request: _frames(request, progress="stage 1")))
    assert "frames without content" in f"{caught.value.answer} {caught.value.hint}"


def test_lines_for_a_terminal_may_come_for_days_while_a_run_is_watched(home: Home) -> None:
    lines: list[str] = []
    opened = channel(lambda request: _frames(request, progress="stage 1"))
    follower = Follower(home, UID, lambda _block: None, on_progress=lines.append)
    assert follower.follow(opened, wait=True) == "closed"
    assert len(lines) == 100_010
    follower.close()
    opened.close()


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
