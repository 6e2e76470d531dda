"""Named locks of the operating system, which releases them when their holder dies.

A wait has a deadline, so that a stopped process does not stop all others: ``LockedError`` names it.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import LockedError
from holdfast.runner.store import fork_guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.runner.store.lock_holders import Holder

PATIENCE_S = 10.0
_AGAIN_S = 0.1  # for a lock that was given up before by this command
_given_up: set[str] = set()


class Lock:
    """``with Lock(path):`` waits for its turn, and no longer than ``patience``; ``Lock.try_hold`` does not wait."""

    def __init__(self, path: str, patience: float = PATIENCE_S) -> None:
        self._path = path
        self._patience = patience
        self._fd = -1

    def __enter__(self) -> Lock:
        self._open()
        if not _lock(self._fd):
            try:
                self._wait()
            except BaseException:
                self.release()
                raise
        _given_up.discard(self._path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def try_hold(self) -> bool:
        self._open()
        if _lock(self._fd):
            return True
        self.release()
        return False

    def release(self) -> None:
        fork_guard.close(self._fd)
        self._fd = -1

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
        self._fd = fork_guard.open_file(self._path, os.O_RDWR | os.O_CREAT)

    def _wait(self) -> None:
        from holdfast.runner.store import lock_wait

        patience = min(_AGAIN_S, self._patience) if self._path in _given_up else self._patience
        try:
            lock_wait.wait(lambda: _lock(self._fd), self._path, patience, _Notice(self._path).show)
        except lock_wait.Held as held:
            _given_up.add(self._path)
            raise locked(self._path, held.holders) from held


class _Notice:
    """One line on a terminal for each process that is waited for."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._shown = ""

    def show(self, holders: list[Holder]) -> None:
        text = ", ".join(map(str, holders)) or "another process"
        if text != self._shown and sys.stderr is not None and sys.stderr.isatty():
            self._shown = text
            sys.stderr.write(f"waiting for {text}: it holds {ascii(self._path)[1:-1]}\n")


def locked(path: str, holders: list[Holder]) -> LockedError:
    pids = " ".join(str(holder.pid) for holder in holders)
    if not holders:
        hint = f"find the process: lsof {path}"
    elif all(holder.stopped for holder in holders):
        hint = f"resume it: kill -CONT {pids}; or end it: kill -KILL {pids}"
    else:
        hint = f"try again later, or end it: kill {pids}"
    by = ", ".join(map(str, holders)) or LockedError.by
    error = LockedError(f"{by}: it holds a lock of the store and does not release it", where=path, hint=hint)
    error.by = by
    return error


def is_held(path: str) -> bool:
    """Whether a process holds the lock at this path; looking writes nothing."""
    try:
        fd = fork_guard.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _share(fd)
    finally:
        fork_guard.close(fd)


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _share(fd: int) -> bool:
        return _lock(fd)

else:
    import fcntl

    def _lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _share(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
