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


def reap() -> "dict[int, int]":
    """Collect every child that has ended: pid -> wait status."""
    ended = {}  # type: dict[int, int]
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def end_family(root: "int", spare: "tuple[int, ...]" = (), patience: "float" = 10.0) -> "dict[int, int]":
    """SIGKILL everything below root until nothing is left; returns what was reaped.

    Each round first stops the family: a stopped process cannot fork away from the kill that follows.
    """
    ended = {}  # type: dict[int, int]
    deadline = time.monotonic() + patience
    while True:
        family = [pid for pid in hostfacts.descendants(root) if pid not in spare]
        ended.update(reap())
        if not family or time.monotonic() > deadline:
            return ended
        tell(family, signal.SIGSTOP)
        tell(family, signal.SIGKILL)
        time.sleep(0.002)


def end_marked(uid: "bytes") -> "list[int]":
    """Kill orphans of a run whose watchers are both gone, known by the run's mark in their environment."""
    found = []  # type: list[int]
    for _ in range(100):
        orphans = hostfacts.marked(b"HOLDFAST_RUN_UID", uid)
        if not orphans:
            break
        found += [pid for pid in orphans if pid not in found]
        tell(orphans, signal.SIGKILL)
        time.sleep(0.01)
    return found
