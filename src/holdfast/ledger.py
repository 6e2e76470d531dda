"""Adds up where the time of a run went, from the start of the command until all results were fetched.

The clocks of two machines are not compared: the client measures its own steps, the runner's events measure those on the
target, and only durations are combined.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.model import Json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# In the order in which they happen; one with several pieces is placed where most of it is.
PARTS = ("begin", "snapshot", "connect", "ship", "environment", "queue", "start", "run", "close", "fetch", "other")
_NS = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds by a clock that cannot be set and that runs on while this machine sleeps."""
    if sys.platform == "win32":
        return time.monotonic_ns()
    clock: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock)


class Stopwatch:
    """A command's own time in laps without gaps; a lap is named when it is over.

    ``waited`` tells how long the target was waited for so far: that is taken out of a lap and called ``connect``.
    """

    def __init__(self, began_ns: int) -> None:
        self.spent: dict[str, int] = {}
        self._last = began_ns
        self._waited = 0
        self.waited: Callable[[], int] = lambda: 0

    def lap(self, name: str) -> None:
        now, waited = now_ns(), self.waited()
        connect = min(max(0, waited - self._waited), now - self._last)
        self._add("connect", connect)
        self._add(name, now - self._last - connect)
        self._last, self._waited = now, waited

    def watched(self) -> None:
        """Time that is not charged to Holdfast: the run continued meanwhile."""
        self._waited = self.waited()
        now = now_ns()
        self._add("watch", now - self._last)
        self._last = now

    def _add(self, name: str, length: int) -> None:
        self.spent[name] = self.spent.get(name, 0) + length


def since_start_ns() -> int:
    """When this process was started, by ``now_ns``; on systems that do not tell, this very moment."""
    if sys.platform == "win32":
        return now_ns()
    try:
        with open("/proc/self/stat", "rb") as source:
            ticks = int(source.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return now_ns()
    return min(now_ns(), ticks * _NS // os.sysconf("SC_CLK_TCK"))


def ledger(client: list[Json], events: list[Json], attempt: int = 1) -> Json | None:
    """``wall_s``, ``whole`` and the seconds of each of the parts, null where unknown; None before any is known.

    ``whole`` says that one command saw all of it, so that ``wall_s`` is what that command took.
    """
    spent, is_whole, fetched = _of_client(client)
    there = _on_target(events)
    if not spent and not there:
        return None
    parts: dict[str, int | None] = {name: spent.get(name) for name in PARTS}
    for name, length in there.items():
        parts[name] = (parts[name] or 0) + length
    if is_whole:
        _close_gap(parts, spent, sum(there.values()), attempt)
    elif fetched:
        parts["fetch"] = (parts["fetch"] or 0) + fetched
    wall = sum(spent.values()) if is_whole else sum(filter(None, parts.values()))
    return {
        "wall_s": wall / _NS,
        "whole": is_whole,
        "parts": {name: None if length is None else length / _NS for name, length in parts.items()},
    }


def _of_client(lines: list[Json]) -> tuple[dict[str, int], bool, int]:
    """What a submit spent on what, whether it stayed to the end, and what others took to bring the rest."""
    spent: dict[str, int] = {}
    is_whole, fetched = False, 0
    for line in lines:
        durations = line.get("spent")
        if not isinstance(durations, dict):
            continue
        lengths = {str(name): length for name, length in durations.items() if isinstance(length, int) and length >= 0}
        if line.get("type") == "watched":
            fetched += lengths.get("fetch", 0)
        else:
            spent, is_whole = lengths, line.get("type") == "ledger"
    return spent, is_whole, fetched


def _on_target(events: list[Json]) -> dict[str, int]:
    """What the runner spent on what; empty before it has accepted the run."""
    first, started, exited, closed = (_first(events, kind) for kind in ("accepted", "started", "exited", "closed"))
    if first is None:
        return {}
    until = started or closed or events[-1]
    before = _between(first, until)
    built, queued = min(before, _building(events, started)), _queueing(events, until)
    queued = min(before - built, queued)
    parts = {"environment": built, "queue": queued, "start": before - built - queued}
    if started is not None:
        ended = exited or closed
        parts["run"] = _between(started, ended) if ended is not None else 0
        parts["close"] = _between(ended, closed) if ended is not None and closed is not None else 0
    return parts


def _building(events: list[Json], started: Json | None) -> int:
    duration = (started or {}).get("environment_ns")
    if isinstance(duration, int):
        return max(0, duration)
    first = _first(events, "preparing")
    after = next((event for event in events if first is not None and _is_after(event, first)), None)
    return _between(first, after or events[-1]) if first is not None else 0


def _is_after(event: Json, first: Json) -> bool:
    return event.get("type") != "preparing" and _number(event.get("seq")) > _number(first.get("seq"))


def _queueing(events: list[Json], until: Json) -> int:
    taken, queued = _first(events, "gpu_taken"), _first(events, "queued")
    if taken is not None and isinstance(waited := taken.get("waited_s"), (int, float)):
        return max(0, int(waited * _NS))
    return _between(queued, until) if queued is not None else 0


def _close_gap(parts: dict[str, int | None], spent: dict[str, int], there: int, attempt: int) -> None:
    """The client's time for start and watch includes the target's work; the rest is the time on the network.

    Of the way there it is known how long the answer took; the rest was after the end.
    """
    start, watched = spent.get("start", 0), spent.get("watch", 0)
    left = start + watched - there
    parts["start"] = (parts["start"] or 0) - start + min(start, max(0, left))
    rest = max(0, left - start)
    name = "fetch" if attempt == 1 else "other"  # earlier attempts, and the time until they were found to be lost
    parts[name] = (parts[name] or 0) + rest
    if left < 0:  # a link that broke while the run was being started: it went on behind our back
        parts["connect"] = max(0, (parts["connect"] or 0) + left)


def _between(start: Json | None, end: Json | None) -> int:
    """By the monotonic clock where both are of one boot, else by the wall clock of that machine."""
    if start is None or end is None:
        return 0
    clock = common_clock(start, end)
    return max(0, _number(end.get(clock)) - _number(start.get(clock)))


def common_clock(start: Json, end: Json) -> str:
    """The field of two events whose difference is the time between them."""
    return "mono_ns" if start.get("boot_id") == end.get("boot_id") else "wall_ns"


def _first(events: list[Json], kind: str) -> Json | None:
    return next((event for event in events if event.get("type") == kind), None)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
