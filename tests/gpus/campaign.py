"""Many runs of two users on four GPUs with a foreign process, some killed: which run had which GPU, and when."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from conftest import Desk, eventually
from fakenvml import GPU, FakeGpus
from holdfast.runner.store.jsonl import read_lines

from .neighbour import Neighbour

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

FOREIGN = 4_194_999  # above what Linux gives out, so that no process has it
CARDS = [GPU._replace(uuid=f"GPU-5b0e4d6c-0000-4000-8000-00000000000{n}", pci=f"000{n}:00:00") for n in range(4)]
AT_ONCE = 10
# Each GPU has a second lock that only scripts take: a script that does not get it shares a GPU with another one.
SCRIPT = """
import fcntl, os, sys, time
place, length = sys.argv[1], float(sys.argv[2])
held = []
for uuid in os.environ["CUDA_VISIBLE_DEVICES"].split(","):
    held.append(os.open(os.path.join(place, uuid), os.O_RDWR | os.O_CREAT))
    try:
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with open(os.path.join(place, "double"), "a") as double:
            double.write(uuid + " " + os.environ["HOLDFAST_RUN_ID"] + "\\n")
time.sleep(length)
"""


class Taken(NamedTuple):
    run: str
    ticket: int
    uuids: tuple[str, ...]
    drawn: float
    at: float


class Campaign:
    def __init__(
        self, place: Path, submits: int, kills: int, seed: int, apart: bool = False, hostile: bool = False
    ) -> None:
        """``apart`` plants the bug that all this is against: each person keeps a book of their own.

        ``hostile``: another user owns the folder of the queue and disturbs it all the time.
        """
        self._place = place
        self._apart = apart
        self._neighbour = Neighbour(place, [card.uuid for card in CARDS], seed) if hostile else None
        self._random = random.Random(seed)
        self._submits = submits
        self._kills = kills
        self.killed = 0
        self.probes = place / "probes"
        self.probes.mkdir()
        self.gpus = FakeGpus(place, *self.with_stranger(3))
        self.desks = [self._desk(name) for name in ("ada", "ben")]
        self._left = submits
        self._guard = threading.Lock()
        self._troubles: list[str] = []
        self.moved_at = 0.0

    def with_stranger(self, index: int) -> list[Any]:
        return [card._replace(processes=((FOREIGN, 7, 1),)) if n == index else card for n, card in enumerate(CARDS)]

    def run(self) -> None:
        with self._neighbour or contextlib.nullcontext():
            self._run()

    def _run(self) -> None:
        people = [threading.Thread(target=self._submit_all, args=(desk,)) for desk in self.desks]
        for person in people:
            person.start()
        while any(person.is_alive() for person in people):
            self._strike()
            if not self.moved_at and self._left < self._submits // 2:
                self.moved_at = time.monotonic()
                self.gpus.tell(*self.with_stranger(0))
            time.sleep(0.05)
        for person in people:
            person.join()
        assert not self._troubles, self._troubles
        eventually(lambda: all(self._is_over(run) for run in self.attempts()), 300)

    def attempts(self) -> list[Path]:
        return [run / "a1" for desk in self.desks for run in (desk.home / "runs").iterdir()]

    def taken(self) -> list[Taken]:
        found = []
        for attempt in self.attempts():
            for event in read_lines(os.fsencode(attempt / "events.jsonl")):
                if event["type"] == "gpu_taken":
                    at = int(str(event["mono_ns"])) / 1e9
                    uuids = tuple(str(uuid) for uuid in event["uuids"])  # type: ignore[attr-defined]
                    drawn = at - float(str(event["waited_s"]))
                    found.append(Taken(attempt.parent.name, int(str(event["ticket"])), uuids, drawn, at))
        return sorted(found, key=lambda one: one.at)

    def doubles(self) -> list[str]:
        path = self.probes / "double"
        return path.read_text().splitlines() if path.exists() else []

    def out_of_order(self) -> list[tuple[Taken, Taken]]:
        """Pairs of which the second was in the queue, with a lower number, when the first got its cards."""
        taken = self.taken()
        return [
            (first, second)
            for at, first in enumerate(taken)
            for second in taken[at + 1 :]
            if second.ticket < first.ticket and second.drawn < first.at
        ]

    def outcomes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for attempt in self.attempts():
            events = read_lines(os.fsencode(attempt / "events.jsonl"))
            closed = next((str(event["outcome"]) for event in events if event["type"] == "closed"), "open")
            found[closed] = found.get(closed, 0) + 1
        return found

    def refused(self) -> list[str]:
        """Why runs failed before their script was started."""
        found = []
        for attempt in self.attempts():
            events = {str(event["type"]): event for event in read_lines(os.fsencode(attempt / "events.jsonl"))}
            if "started" not in events and events.get("closed", {}).get("outcome") == "failed":
                found.append(str(events["closed"].get("reason")))
        return found

    def _desk(self, name: str) -> Desk:
        place = self._place / name
        place.mkdir()
        desk = Desk(place)
        locks = str(self._place / (f"locks-{name}" if self._apart else "locks"))
        locks = str(self._neighbour.folder) if self._neighbour else locks
        desk.env.update(USER=name, LD_LIBRARY_PATH=str(self.gpus.folder), HOLDFAST_GPU_LOCKS=locks)
        desk.script(SCRIPT)
        return desk

    def _submit_all(self, desk: Desk) -> None:
        while not self._troubles:
            with self._guard:
                if not self._left:
                    return
                self._left -= 1
                count, length = self._random.choice((1, 1, 1, 2, 3)), self._random.uniform(0, 0.3)
            done = desk.submit("--detach", "--gpus", str(count), "train.py", str(self.probes), f"{length:.3f}")
            if done.code:
                self._troubles.append(done.err)
            while len(self._open(desk)) >= AT_ONCE // 2:
                time.sleep(0.05)

    def _open(self, desk: Desk) -> list[Path]:
        return [run / "a1" for run in (desk.home / "runs").iterdir() if not self._is_over(run / "a1")]

    def _is_over(self, attempt: Path) -> bool:
        """Closed, or gone without a word, which the next command of its owner will find."""
        with contextlib.suppress(FileNotFoundError):
            events = (attempt / "events.jsonl").read_bytes()
            return b'"type":"closed"' in events or self._is_dead(events)
        return False

    def _is_dead(self, events: bytes) -> bool:
        with contextlib.suppress(ValueError, IndexError):
            first = json.loads(events.splitlines()[0])
            return not any(os.path.exists(f"/proc/{first[who]}") for who in ("pid", "guardian"))
        return False

    def _strike(self) -> None:
        """kill -9 of a process at any time: waiting, starting, running or ending."""
        done = self._submits - self._left
        if self.killed >= self._kills * done // self._submits:
            return
        running = [attempt for desk in self.desks if (desk.home / "runs").is_dir() for attempt in self._open(desk)]
        if not running:
            return
        events = read_lines(os.fsencode(self._random.choice(running) / "events.jsonl"))
        known = {event["type"]: event for event in events}
        if "accepted" not in known:
            return
        victims = [[known["accepted"]["pid"]], [known["accepted"]["guardian"]]]
        victims.append(victims[0] + victims[1])
        if "started" in known:
            victims.append([known["started"]["pid"]])
        for pid in self._random.choice(victims):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(str(pid)), signal.SIGKILL)
                self.killed += 1
