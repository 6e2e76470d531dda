"""One lock per name, held by the operating system: a killed holder lets go by dying."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class Lock:
    """``with Lock(path):`` waits for its turn; ``Lock.try_hold`` does not wait."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> Lock:
        self._open()
        _lock(self._fd, wait=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def try_hold(self) -> bool:
        self._open()
        if _lock(self._fd, wait=False):
            return True
        self.release()
        return False

    def release(self) -> None:
        os.close(self._fd)
        self._fd = -1

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)


def is_held(path: str) -> bool:
    """Whether somebody holds the lock at this path; looking writes nothing."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _share(fd)
    finally:
        os.close(fd)


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, *, wait: bool) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            if wait:
                raise
            return False
        return True

    def _share(fd: int) -> bool:
        return _lock(fd, wait=False)

else:
    import fcntl

    def _lock(fd: int, *, wait: bool) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _share(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
