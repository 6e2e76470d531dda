"""Exclusive lock on a shared resource, whose users each hold the shared lock."""

import fcntl
import os
import sys

assert sys.platform != "win32"  # a target is never Windows


class InUse(Exception):
    """The resource is in use."""


class Alone:
    """``with Alone(lock):`` no other process can begin to use it; raises InUse if one does already."""

    def __init__(self, lock: "bytes") -> "None":
        self._lock = lock
        self._fd = -1

    def __enter__(self) -> "None":
        os.makedirs(os.path.dirname(self._lock), 0o700, exist_ok=True)
        self._fd = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise InUse("in use") from None

    def __exit__(self, *_: "object") -> "None":
        os.close(self._fd)


def is_used(lock: "bytes") -> "bool":
    """Whether a process holds the lock; the lock file is not created."""
    if not os.path.exists(lock):
        return False
    try:
        with Alone(lock):
            return False
    except InUse:
        return True
