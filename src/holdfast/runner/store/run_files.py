"""Append-only files of a run: events and other JSON lines, one writer each, and the lock that means "alive"."""

import errno
import fcntl
import os
import stat
import sys
import time

from .. import wire
from ..decoding import as_bytes, lossless
from ..machine import node, processes
from ..run import outputs, waiting
from . import files, jsonl, layout

STALE_S = 90.0  # without a sign of life for so long, an attempt from before a reboot has ended with it
_RESERVE_SIZE = 64 * 1024


def now() -> "dict[str, object]":
    return {"wall_ns": int(time.time() * 1e9), "mono_ns": int(time.monotonic() * 1e9), "boot_id": processes.boot_id()}


def make_reserve(attempt: "bytes") -> "None":
    """Reserve disk space for the last events, released when they need it, so that they are kept on a full disk."""
    fd = os.open(layout.reserve(attempt), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        wire.write_all(fd, bytes(_RESERVE_SIZE))
    finally:
        os.close(fd)


class Events:
    """Writer of ``events.jsonl``: the file that decides what happened to a run."""

    def __init__(self, attempt: "bytes") -> "None":
        self.path = layout.events(attempt)
        self._reserve = layout.reserve(attempt)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._boot_id = processes.boot_id()
        self._end_torn_line()
        self._seq = len(jsonl.read_lines(self.path))

    def add(self, kind: "str", **fields: "object") -> "None":
        event = {"v": jsonl.SEALED, "seq": self._seq}  # type: dict[str, object]
        event.update(wall_ns=int(time.time() * 1e9), mono_ns=int(time.monotonic() * 1e9))
        event.update(boot_id=self._boot_id, type=kind)
        event.update(fields)
        self._write(jsonl.sealed(event))
        self._seq += 1

    def close(self, outcome: "str", exit_code: "int", reason: "str", **fields: "object") -> "None":
        """The last event of all."""
        self.add("closed", outcome=outcome, exit_code=exit_code, reason=reason, **fields)
        self.sync()
        self._free_reserve()

    def sync(self) -> "None":
        os.fsync(self._fd)

    def _write(self, data: "bytes") -> "None":
        try:
            wire.write_all(self._fd, data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self._free_reserve():
                raise
            self._end_torn_line()
            wire.write_all(self._fd, data)

    def _free_reserve(self) -> "bool":
        try:
            os.unlink(self._reserve)
        except FileNotFoundError:
            return False
        return True

    def _end_torn_line(self) -> "None":
        """A writer that was killed mid-line must not glue its half line to our first one."""
        if sys.platform == "win32":
            return  # never a target
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            self._write(b"\n")


def close_as_lost(attempt: "bytes", reason: "str") -> "None":
    """Close an attempt in place of those who should have. Where they did, nothing is added."""
    close(attempt, "lost", 125, reason)


def close(attempt: "bytes", outcome: "str", exit_code: "int", reason: "str", **fields: "object") -> "None":
    """The same with another outcome; ``fields``: further fields of the closing event."""
    events = Events(attempt)  # ends a torn line, which may turn out to be the closing one
    if closed(attempt) is None:
        outputs.remove_partial(attempt)
        if os.path.exists(layout.spark_scratch(attempt)):
            from ..machine import spark_record

            spark_record.finish(attempt, events, 0)
        events.close(outcome, exit_code, reason, **dict(fields, **hashes(attempt)[0]))


def closed(attempt: "bytes") -> "dict[str, object] | None":
    """The closing event of an attempt, if it has one."""
    for event in reversed(jsonl.read_lines(layout.events(attempt))):
        if event.get("type") == "closed":
            return event
    return None


def hashes(attempt: "bytes", **known: "object") -> "tuple[dict[str, dict[str, object]], list[str]]":
    """What a closing event says of the files: length and hash of each, and why some have none.

    ``files`` are complete. ``begun`` are those that we may still write to: their first bytes are spoken for.
    """
    result = {"files": dict(known), "begun": {}}  # type: dict[str, dict[str, object]]
    troubles = []
    names = [layout.log.name, layout.manifest.name]
    names += [*plain_files(attempt, layout.metrics.name), *plain_files(attempt, layout.gpu.name)]
    begun = (layout.plan.name, layout.runner_log.name)
    for kind, name in [("files", name) for name in names] + [("begun", name) for name in begun]:
        try:
            if name not in known:
                result[kind][name] = outputs.digest(os.path.join(attempt, as_bytes(name)))
        except OSError as error:
            troubles.append("%s has no hash: %s" % (ascii(name), error))
    return result, troubles


def plain_files(attempt: "bytes", folder: "str") -> "list[str]":
    """Names of the files in a folder that scripts can write to, and of nothing else that they may have put there.

    Files that are being written are left out: they get another name, or vanish.
    """
    path = os.path.join(attempt, folder.encode())
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return []
    names = [name for name in names if b"\\" not in name and not files.is_temporary(name)]
    return [folder + "/" + lossless(name) for name in names if _is_regular(os.path.join(path, name))]


def _is_regular(path: "bytes") -> "bool":
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False  # removed since its folder was read


def hold(attempt: "bytes") -> "int":
    """Take the lock that means "this attempt is alive"; it is held as long as any copy of the descriptor is open."""
    if sys.platform == "win32":
        return -1  # never a target
    fd = os.open(layout.alive(attempt), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    wire.write_all(fd, node.encoded())
    return fd


def beat(attempt: "bytes") -> "None":
    """Show that the attempt is alive where its lock cannot be seen: on other nodes that share this folder."""
    try:
        os.utime(layout.alive(attempt))
    except OSError:
        pass  # a folder that is gone, or a disk that refuses


def is_elsewhere(attempt: "bytes") -> "bool":
    """Whether another node runs this attempt, so that its lock, its boot id and its pids say nothing here.

    A boot id that is not ours means a reboot only if there was no sign of life since: two nodes may look the same.
    """
    written = node.read(layout.alive(attempt)) or _first_event(attempt)
    if not written or node.is_this_boot(written):
        return False
    return not node.is_this(written) or _has_beaten_lately(attempt)


def _first_event(attempt: "bytes") -> "dict[str, object]":
    return (jsonl.read_lines(layout.events(attempt)) or [{}])[0]


def may_live(attempt: "bytes") -> "bool":
    """Whether the attempt lives here, waits, or nothing else can be said because another node runs it."""
    return is_held(attempt) or (closed(attempt) is None and (waiting.is_waiting(attempt) or is_elsewhere(attempt)))


def silent_for(attempt: "bytes") -> "float":
    """Seconds since the last sign of life."""
    try:
        return time.time() - os.stat(layout.alive(attempt)).st_mtime
    except OSError:
        return 0.0


def _has_beaten_lately(attempt: "bytes") -> "bool":
    silent = silent_for(attempt)
    return silent < STALE_S and time.time() - silent > processes.booted_at()


def is_held(attempt: "bytes") -> "bool":
    if sys.platform == "win32":
        return False  # never a target
    try:
        fd = os.open(layout.alive(attempt), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
