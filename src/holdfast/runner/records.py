"""Append-only files of a run: events and other JSON lines, one writer each, and the lock that means "alive"."""

import fcntl
import os
import time

from . import hostfacts, jsonl, wire


def now() -> "dict[str, object]":
    return {"wall_ns": int(time.time() * 1e9), "mono_ns": int(time.monotonic() * 1e9), "boot_id": hostfacts.boot_id()}


class Events:
    """Writer of ``events.jsonl``: the file that decides what happened to a run."""

    def __init__(self, attempt: "bytes") -> "None":
        self.path = os.path.join(attempt, b"events.jsonl")
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._seq = len(jsonl.read_lines(self.path))
        self._boot_id = hostfacts.boot_id()
        self._end_torn_line()

    def add(self, kind: "str", **fields: "object") -> "None":
        event = {"v": 1, "seq": self._seq}  # type: dict[str, object]
        event.update(wall_ns=int(time.time() * 1e9), mono_ns=int(time.monotonic() * 1e9))
        event.update(boot_id=self._boot_id, type=kind)
        event.update(fields)
        wire.write_all(self._fd, wire.dumps(event) + b"\n")
        self._seq += 1

    def sync(self) -> "None":
        os.fsync(self._fd)

    def _end_torn_line(self) -> "None":
        """A writer that was killed mid-line must not glue its half line to our first one."""
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            wire.write_all(self._fd, b"\n")


def closed(attempt: "bytes") -> "dict[str, object] | None":
    """The closing event of an attempt, if it has one."""
    for event in reversed(jsonl.read_lines(os.path.join(attempt, b"events.jsonl"))):
        if event.get("type") == "closed":
            return event
    return None


def hold(attempt: "bytes") -> "int":
    """Take the lock that means "this attempt is alive"; it is held as long as any copy of the descriptor is open."""
    fd = os.open(os.path.join(attempt, b"alive"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def is_held(attempt: "bytes") -> "bool":
    try:
        fd = os.open(os.path.join(attempt, b"alive"), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
