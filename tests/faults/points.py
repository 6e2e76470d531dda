"""Checks that values which a script logged successfully arrive once on the client, through kills of any process."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import struct
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from conftest import eventually
from holdfast.metrics import reader
from holdfast.runner.store.jsonl import read_lines

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

# Two processes log at once. After each call they count, in a file of their own that is mapped and outlives any kill.
SCRIPT = """
import holdfast, mmap, os, struct, sys
place, count = sys.argv[1], int(sys.argv[2])
which = os.fork()
name = "child" if which == 0 else "parent"
with open(os.path.join(place, name), "wb") as new:
    new.write(bytes(8))
told = mmap.mmap(os.open(os.path.join(place, name), os.O_RDWR), 8)
for number in range(count):
    holdfast.log(name, float(number), number)
    told[:] = struct.pack("<q", number + 1)
if which:
    os.waitpid(which, 0)
"""
VICTIMS = ("script", "runner", "guardian", "client", "client and runner")


class Counted(NamedTuple):
    victim: str
    uid: str
    told: int
    lost: int
    twice: int


def play(desk: Desk, elsewhere: Path, place: Path, points: int, chance: random.Random) -> Counted:
    """One run that is watched and struck once, then looked at from the client."""
    place.mkdir()
    client = desk.start("submit", "-c", "local", "train.py", str(place), str(points))
    before = set((elsewhere / "runs").glob("*")) if (elsewhere / "runs").exists() else set()
    eventually(lambda: _counts(place) > (0, 0) or client.poll() is not None, 60)
    victim = chance.choice(VICTIMS)
    goal = int(points * 2 * chance.random())
    with contextlib.suppress(AssertionError):
        eventually(lambda: sum(_counts(place)) >= goal or client.poll() is not None, 60)
    _strike(victim, client, elsewhere, before, place)
    client.communicate(timeout=120)
    uid = _uid(place, elsewhere, before)
    desk.holdfast("logs", "-f", "-r", uid)
    eventually(lambda: desk.record(uid)["end_time_utc"] is not None, 60)
    return count(desk, uid, place)._replace(victim=victim, uid=uid)


def count(desk: Desk, uid: str, place: Path) -> Counted:
    """What the client has of a run, held against what its processes were told."""
    told = dict(zip(("child", "parent"), _counts(place), strict=True))
    found = reader.read_dir(str(desk.home / "runs" / uid / "a1" / "metrics")).by_name
    lost = twice = 0
    for name, number in told.items():
        steps = list(found[name].steps) if name in found else []
        values = list(found[name].values) if name in found else []
        lost += len(set(range(number)) - set(steps))
        twice += len(steps) - len(set(steps))
        assert values == steps
    return Counted("", uid, sum(told.values()), lost, twice)


def _counts(place: Path) -> tuple[int, int]:
    """What each process was told is kept."""
    found = []
    for name in ("child", "parent"):
        try:
            data = (place / name).read_bytes()
        except FileNotFoundError:
            data = b""
        found.append(struct.unpack("<q", data)[0] if len(data) == 8 else 0)
    return found[0], found[1]


def _uid(place: Path, elsewhere: Path, before: set[Path]) -> str:
    for run in sorted(set((elsewhere / "runs").glob("*")) | before, key=lambda path: path.stat().st_mtime_ns):
        request = run / "run.json"
        if request.exists() and str(place) in request.read_text():
            return run.name
    raise AssertionError(f"no run knows {place}")


def _strike(victim: str, client: subprocess.Popen[bytes], elsewhere: Path, before: set[Path], place: Path) -> None:
    attempt = elsewhere / "runs" / _uid(place, elsewhere, before) / "a1"
    known = {event["type"]: event for event in read_lines(os.fsencode(attempt / "events.jsonl"))}
    pids = {
        "client": [client.pid],
        "runner": [int(str(known["accepted"]["pid"]))],
        "guardian": [int(str(known["accepted"]["guardian"]))],
        "script": [int(str(known["started"]["pid"]))] if "started" in known else [],
    }
    pids["client and runner"] = pids["client"] + pids["runner"]
    for pid in pids[victim]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
