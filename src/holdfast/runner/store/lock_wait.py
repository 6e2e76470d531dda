"""Waits for a file lock with a deadline, so that no command waits forever for a stopped process."""

import errno
import os
import sys
import time

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import AnyStr

    from . import lock_holders

PATIENCE_S = 10.0
STOPPED_S = 1.0  # a stopped process lets go of nothing
QUIET_S = 1.0  # before it is looked who holds the lock
_POLL_S = 0.005


class Held(OSError):
    """The lock was not let go in time; ``holders`` are the processes that have it, where that can be seen."""

    def __init__(self, path: "AnyStr", holders: "list[lock_holders.Holder]") -> "None":
        super().__init__(errno.EBUSY, os.strerror(errno.EBUSY), path)
        self.holders = holders

    def __str__(self) -> "str":
        text = ", ".join(str(holder) for holder in self.holders) or "another process"
        return "%s is held by %s" % (os.fsdecode(self.filename), text)


def hold(fd: "int", path: "AnyStr", shared: "bool" = False, patience: "float" = PATIENCE_S) -> "None":
    """Lock the file that is open as ``fd``; Held where that is not possible in time."""
    if not try_hold(fd, shared):
        wait(lambda: try_hold(fd, shared), path, patience)


def try_hold(fd: "int", shared: "bool" = False) -> "bool":
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import fcntl

    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def wait(
    take: "Callable[[], bool]",
    path: "AnyStr",
    patience: "float" = PATIENCE_S,
    tell: "Callable[[list[lock_holders.Holder]], None] | None" = None,
) -> "None":
    """Call ``take`` until it succeeds; Held when the same processes had the lock for ``patience`` seconds.

    ``tell`` hears once a second who holds it. The time starts again when the lock goes to another process: many
    that take turns are no hang.
    """
    from . import lock_holders

    pause, began = 0.0005, time.monotonic()
    since, look_at = began, began + min(QUIET_S, patience)
    known = None  # type: list[int] | None
    while not take():
        now = time.monotonic()
        if now >= look_at:
            look_at = now + min(QUIET_S, patience)
            holders = lock_holders.holders(path)
            pids = sorted(holder.pid for holder in holders)
            if known is not None and pids != known:
                since = now
            known = pids
            if tell is not None:
                tell(holders)
            stopped = bool(holders) and all(holder.stopped for holder in holders)
            if now - since >= (min(STOPPED_S, patience) if stopped else patience):
                raise Held(path, holders)
        time.sleep(pause)
        pause = min(pause * 2, _POLL_S)
