"""Looking at a machine the way a run will meet it, one thing after the other, each with what to do if it is not so."""

from __future__ import annotations

import errno
import os
import select
import socket
import subprocess
import time

from holdfast import targets
from holdfast.engine.attach import find_python
from holdfast.engine.channel import RunnerChannel
from holdfast.errors import ConfigError, HoldfastError, HostKeyError, UnreachableError
from holdfast.hosts import openssh
from holdfast.hosts.ssh import CONNECT_TIMEOUT_S, SshHost
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.model import Json, Login
    from holdfast.store.home import Home
    from holdfast.targets import Target

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "failed", "skipped"
SKEW_S = 5.0
LITTLE_BYTES = 1_000_000_000
LITTLE_INODES = 10_000
ANSWER_S = 60.0
_ASK_PYTHON = "import sys, time; print('%s', time.time(), '%%d.%%d.%%d' %% sys.version_info[:3], sys.executable)"


class Tick(Record):
    """``state`` is ok, warning, failed or skipped; ``fix`` is what to type or do; ``code`` is the exit code."""

    name: str
    state: str
    found: str
    fix: str = ""
    code: int = 0


def machine(compute: ComputeTarget, home: str) -> Target:
    """The target as a plain machine, whatever will run on it: containers and Spark are reached the same way."""
    return targets.resolve(compute._replace(type="remote") if compute.address else compute, home)


def examine(home: Home, compute: ComputeTarget) -> Iterator[Tick]:
    """Ticks as they are found out. After a failed one nothing further can be known, and nothing comes."""
    examination = _Examination(home, compute)
    for name, look in examination.steps():
        try:
            for tick in look():
                yield tick
                if tick.state == FAILED:
                    return
        except HoldfastError as error:
            found = f"{error.what}: {error.answer}" if error.answer else error.what
            code = error.exit_code if isinstance(error, (UnreachableError, HostKeyError)) else ConfigError.exit_code
            yield Tick(name, FAILED, found, error.hint, code)
            return
