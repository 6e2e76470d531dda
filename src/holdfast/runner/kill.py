"""Ending a whole family of processes: double forks, new sessions and those that ignore SIGTERM included."""

import os
import signal
import time

from . import hostfacts


def tell(pids: "list[int]", number: "int") -> "None":
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def reap() -> "tuple[dict[int, int], bool]":
    """Collect every child that has ended (pid -> wait status), and say whether there are others.

    For a process that adopts orphans, no child means no descendant: that answer is free, a look at all is not.
    """
    ended = {}  # type: dict[int, int]
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def end_family(patience: "float" = 10.0) -> "dict[int, int]":
    """SIGKILL everything below this process until nothing is left; returns what was reaped.

    Each round first stops the family: a stopped process cannot fork away from the kill that follows.
    """
    ended = {}  # type: dict[int, int]
    deadline = time.monotonic() + patience
    while True:
        reaped, others = reap()
        ended.update(reaped)
        if not others or time.monotonic() > deadline:
            return ended
        family = hostfacts.descendants(os.getpid())
        tell(family, signal.SIGSTOP)
        tell(family, signal.SIGKILL)
        time.sleep(0.002)


def end_marked(value: "bytes", variable: "bytes" = b"HOLDFAST_RUN_UID") -> "list[int]":
    """Kill what nobody else can reach any more, known by a mark in its environment; a run's own is its uid."""
    found = []  # type: list[int]
    for _ in range(100):
        orphans = hostfacts.marked(variable, value)
        if not orphans:
            break
        found += [pid for pid in orphans if pid not in found]
        tell(orphans, signal.SIGKILL)
        time.sleep(0.01)
    return found
