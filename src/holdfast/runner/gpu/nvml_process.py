"""A child process that reads GPUs through ``nvml`` with a time limit: the library may hang together with the driver."""

import json
import os
import select
import time

from .. import wire
from ..machine import processes
from ..signals import signal
from . import gpu_model, nvml

MYPY = False
if MYPY:
    from typing import Any

# The first look may take long: where no daemon keeps the driver awake, it wakes every card.
LIMIT_S = 30.0
ANSWER_S = 6.0  # for a person who waits
_REAPED_S = 1.0


def facts(limit_s: "float" = LIMIT_S) -> "dict[str, Any]":
    """One look; see ``Reader.read``."""
    reader = Reader(limit_s)
    try:
        return reader.read()
    finally:
        reader.close()


class Reader:
    """Reads repeatedly without opening the library again."""

    def __init__(self, limit_s: "float" = LIMIT_S, answer_s: "float | None" = None) -> "None":
        """``limit_s``: after so long the driver is given up; ``answer_s``: after so long ``read`` returns anyway."""
        self._limit_s = limit_s
        self._answer_s = limit_s if answer_s is None else answer_s
        self._asked = 0.0
        self._data = b""
        self._pid = 0
        self._asks = -1
        self._answers = -1
        self._given_up = ""

    def read(self) -> "dict[str, Any]":
        """``state``: measured, none (there is no NVIDIA GPU), or unmeasured (could not be read; ``trouble`` says why).

        ``is_pending`` is set where the driver has not answered yet and the next call goes on waiting for it.
        Never raises. A driver that was given up is not asked again: a process stuck in the kernel cannot be ended.
        """
        try:
            if not self._given_up:
                if not self._pid:
                    self._start()
                if not self._asked:
                    wire.write_all(self._asks, b"\n")
                    self._asked, self._data = time.monotonic(), b""
                line = self._line()
                self._asked = 0.0
                return dict(json.loads(line.decode("ascii")))
        except _Pending as error:
            return dict(gpu_model.nothing(gpu_model.UNMEASURED, str(error)), is_pending=True)
        except _Unanswered as error:
            self._given_up = str(error)
        except (OSError, ValueError, wire.Closed) as error:
            self._given_up = "NVIDIA's library could not be queried: %s" % error
        self.close()
        return gpu_model.nothing(gpu_model.UNMEASURED, self._given_up)

    def close(self) -> "None":
        if not self._pid:
            return
        pid, self._pid = self._pid, 0
        os.close(self._asks)
        os.close(self._answers)
        _end(pid)

    def _start(self) -> "None":
        theirs, self._asks = os.pipe()
        self._answers, mine = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                stand_alone(theirs, mine)
                _answer(theirs, mine)
            finally:
                os._exit(0)
        os.close(theirs)
        os.close(mine)

    def _line(self) -> "bytes":
        given_up = self._asked + self._limit_s
        deadline = min(given_up, time.monotonic() + self._answer_s)
        while not self._data.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                if deadline < given_up:
                    waited = time.monotonic() - self._asked
                    raise _Pending("NVIDIA's driver has not responded for %.0f s; it may be waking the GPUs" % waited)
                raise _Unanswered("NVIDIA's driver did not respond within %g s" % self._limit_s)
            block = os.read(self._answers, 65536)
            if not block:
                raise _Unanswered("NVIDIA's library crashed when queried")
            self._data += block
        return self._data


class _Pending(Exception):
    """The child process has not answered yet, and is waited for further."""


class _Unanswered(Exception):
    """The child process hangs or has ended."""


def _end(pid: "int") -> "None":
    try:
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + _REAPED_S
        while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
    except OSError:
        return  # other code of this process reaps children


def stand_alone(asks: "int", answers: "int") -> "None":
    """Hold nothing of the parent's: a lock kept open in a child that hangs would be held for ever."""
    processes.die_with_parent(signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    low, high = sorted((asks, answers))
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, 4096)


def _answer(asks: "int", answers: "int") -> "None":
    source = None  # type: Any
    while os.read(asks, 1):
        source, answer = nvml.look_with(source)
        wire.write_all(answers, wire.dumps(answer) + b"\n")
