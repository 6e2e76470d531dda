"""Another unprivileged user of the machine who owns the folder of the GPU queue and does all that the kernel allows."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import random
import signal
import time
from typing import TYPE_CHECKING

from holdfast.runner.gpu import reservation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UID = 65534
NAME = "locks"


class Neighbour:
    """``with Neighbour(place, uuids, seed) as neighbour:`` they are at work; ``folder`` is where the queue is."""

    def __init__(self, place: Path, uuids: list[str], seed: int) -> None:
        self._shared = place / "shared"  # as /tmp
        self._shared.mkdir()
        self._shared.chmod(0o1777)
        self.folder = self._shared / NAME
        self._uuids = uuids
        self._random = random.Random(seed)
        self._pid = 0
        self._count = 0

    def __enter__(self) -> Neighbour:
        self._pid = as_user(self._shared, self._work)
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _work(self) -> None:
        self._make_folder()
        while True:
            action = self._random.choice(
                (self._delete, self._rename, self._replace, self._hold, self._swap, self._close, self._squat)
            )
            with contextlib.suppress(OSError):
                action()
            with contextlib.suppress(OSError):
                self._make_folder()
            time.sleep(0.002)

    def _make_folder(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(NAME)
        os.chmod(NAME, 0o1777)

    def _files(self) -> list[str]:
        found = [os.path.join(NAME, name) for name in os.listdir(NAME)]
        self._random.shuffle(found)
        return found

    def _delete(self) -> None:
        for path in self._files():
            os.unlink(path)

    def _rename(self) -> None:
        files = self._files()
        for path, other in itertools.pairwise(files):
            os.rename(path, other)

    def _replace(self) -> None:
        """Tickets and locks by links, FIFOs, huge files and lies."""
        for path in [*self._files(), f"{NAME}/{0:012d}-{self._random.getrandbits(128):032x}.ticket"]:
            with contextlib.suppress(OSError):
                os.unlink(path)
            make: Callable[[], object] = self._random.choice(
                (
                    lambda path=path: os.symlink("/etc/passwd", path),
                    lambda path=path: os.mkfifo(path),
                    lambda path=path: os.mkdir(path),
                    lambda path=path: write(path, b'{"run_id": "' + b"x" * 1_000_000),
                    lambda path=path: write(path, b"[" * 60_000),
                    lambda path=path: write(path, b'{"wish": {"count": [], "memory": "much"}, "run_id": {}}\n' * 9),
                )
            )
            make()

    def _hold(self) -> None:
        """Every lock that can be had, for a moment: order.lock, cards, and tickets of other users."""
        held = []
        for path in self._files():
            with contextlib.suppress(OSError):
                held.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
                fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.02)
        for descriptor in held:
            os.close(descriptor)

    def _swap(self) -> None:
        """Something else in place of the folder."""
        self._count += 1
        os.rename(NAME, f"{NAME}.{self._count}")
        if self._random.random() < 0.5:
            os.symlink("/etc", NAME)
            time.sleep(0.005)
            os.unlink(NAME)

    def _close(self) -> None:
        os.chmod(NAME, self._random.choice((0o700, 0o755, 0o000)))
        time.sleep(0.005)

    def _squat(self) -> None:
        """The name by which a card is held, where it is free: others wait meanwhile."""
        domain = os.fsencode(self.folder)
        descriptor = reservation.reserve(domain, self._random.choice(self._uuids), shared=False)
        time.sleep(0.005)
        if descriptor >= 0:
            os.close(descriptor)


def as_user(folder: Path, work: Callable[[], None]) -> int:
    """The pid of a process of that user in the folder, which may lie where that user could not go to by its path."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.chdir(folder)
        os.setgroups([])
        os.setgid(UID)
        os.setuid(UID)
        work()
        os._exit(0)
    finally:
        os._exit(1)


def write(path: str, content: bytes) -> None:
    """With a lock on it, as a ticket has; it is let go when this process opens that many more."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NONBLOCK, 0o644)
    os.write(fd, content)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _KEPT.append(fd)
    if len(_KEPT) > 8:
        os.close(_KEPT.pop(0))


_KEPT: list[int] = []
