"""Checks whether the folder of a store can be used. Part of every hello, so it must be cheap."""

import errno
import fcntl
import os
import time

from .. import wire
from ..store import jsonl, layout
from . import processes

# Reported elsewhere, with a better message: disk full, permission denied.
_NO_LOCKS_MATTER = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def fit(home: "bytes") -> "dict[str, object]":
    room = os.statvfs(home)
    return {
        "free": room.f_bavail * room.f_frsize,
        "inodes": room.f_favail if room.f_files else None,
        "read_only": bool(room.f_flag & os.ST_RDONLY),
        "no_exec": bool(room.f_flag & getattr(os, "ST_NOEXEC", 0)),
        "locks": _locks(home),
        "clock_ns": int(time.time() * 1e9),
    }


def locks_work(home: "bytes") -> "str":
    """What is wrong with locks and appends on this file system; runs need both."""
    path = os.path.join(home, b"locks-work.%d" % os.getpid())
    first = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    second = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return "two processes can hold one lock"
        except BlockingIOError:
            pass
        wire.write_all(first, b"a")
        wire.write_all(second, b"b")
        return "" if os.pread(first, 2, 0) == b"ab" else "appended bytes overwrite each other"
    except OSError as error:
        if error.errno in _NO_LOCKS_MATTER:
            raise
        return str(error)
    finally:
        os.close(first)
        os.close(second)
        os.unlink(path)


def gpus(home: "bytes") -> "int | None":
    """How many NVIDIA GPUs there are as far as that is known without asking the driver: 0, a number, or None."""
    from . import facts

    known = facts.gpu_if_known(home)
    if known is not None:
        return len(known)
    if facts.has_driver():
        return None
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    return None


def _locks(home: "bytes") -> "str":
    """Found out once for each boot and file system, as over a network it takes several trips."""
    note = layout.lock_support(home)
    state = "%s %d" % (processes.boot_id(), os.stat(home).st_dev)
    try:
        if any(line.get("state") == state for line in jsonl.read_lines(note)):
            return ""
        problem = locks_work(home)
        if not problem:
            os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
            jsonl.append_line(note, {"state": state})
        return problem
    except OSError as error:
        return "" if error.errno in _NO_LOCKS_MATTER else str(error)
