"""Ends a whole process tree, including double forks, new sessions and processes that ignore SIGTERM."""

import os
import time

from ..container import nested_runs
from ..machine import processes
from ..signals import signal


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


def reap_family(own: "str") -> "tuple[dict[int, int], bool]":
    """The same, where children that are runs apart are not counted among the others."""
    ended, others = reap()
    return ended, others and not all(nested_runs.is_other_run(pid, own) for pid in processes.children(os.getpid()))


def family(root: "int", own: "str") -> "list[int]":
    """All descendants of a process of the run ``own``, without the independent runs that its script started."""

    def is_apart(child: "int", parent: "int") -> "bool":
        return nested_runs.session_of(child) != nested_runs.session_of(parent) and nested_runs.is_other_run(child, own)

    return processes.descendants(root, is_apart)


def end_family(own: "str", patience: "float" = 10.0) -> "dict[int, int]":
    """SIGKILL all descendants of this process until none is left; returns what was reaped.

    Each round first stops the family: a stopped process cannot fork away from the kill that follows.
    """
    ended = {}  # type: dict[int, int]
    deadline = time.monotonic() + patience
    while True:
        reaped, others = reap_family(own)
        ended.update(reaped)
        if not others or time.monotonic() > deadline:
            return ended
        left = family(os.getpid(), own)
        tell(left, signal.SIGSTOP)
        tell(left, signal.SIGKILL)
        time.sleep(0.002)


def end_marked(value: "bytes", variable: "bytes" = b"HOLDFAST_RUN_UID") -> "list[int]":
    """Kill processes that have no watcher any more, known by a mark in their environment; a run's own is its uid.

    What a run apart inherited of that mark is no reason to end it.
    """
    pids = []  # type: list[int]
    own = value.decode("ascii", "replace")
    for _ in range(100):
        orphans = [pid for pid in processes.marked(variable, value) if not nested_runs.is_other_run(pid, own)]
        if not orphans:
            break
        pids += [pid for pid in orphans if pid not in pids]
        tell(orphans, signal.SIGKILL)
        time.sleep(0.01)
    return pids
