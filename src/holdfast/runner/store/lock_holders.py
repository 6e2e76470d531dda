"""Finds the processes that hold a lock on a file, and whether they are stopped (Linux, from /proc)."""

import contextlib
import os
import sys

from ..decoding import readable

MYPY = False
if MYPY:
    from typing import AnyStr


class Holder:
    """A process that holds a lock. ``stopped``: by SIGSTOP, Ctrl-Z or a debugger; it will not release the lock."""

    def __init__(self, pid: "int") -> "None":
        self.pid = pid
        self.stopped = _state(pid) in ("T", "t")
        self.command = _command(pid)

    def __str__(self) -> "str":
        text = "process %d" % self.pid
        text += " (%s)" % self.command if self.command else ""
        return text + (", which is stopped" if self.stopped else "")


def holders(path: "AnyStr") -> "list[Holder]":
    """Who holds a flock on this file now. Empty where that cannot be seen: not Linux, or another user's container.

    /proc/locks names the process that took the lock. Where that one has ended and left the descriptor to others,
    all processes of this user that have the file open are returned, except this one.
    """
    if sys.platform == "win32":
        return []
    try:
        status = os.stat(path)
        pids = _lockers(status)
    except OSError:
        return []
    living = [pid for pid in pids if os.path.isdir("/proc/%d" % pid)]
    if pids and not living:
        living = [pid for pid in _processes() if pid != os.getpid() and _has_open(pid, status)]
    return [Holder(pid) for pid in living]


def _lockers(status: "os.stat_result") -> "list[int]":
    """By inode; the device in /proc/locks is not that of stat on btrfs and overlayfs, so it only decides a tie."""
    if sys.platform == "win32":
        return []
    exact = []  # type: list[int]
    alike = []  # type: list[int]
    device = "%02x:%02x" % (os.major(status.st_dev), os.minor(status.st_dev))
    with open("/proc/locks") as source:
        for line in source:
            fields = line.split()  # 1: FLOCK ADVISORY WRITE 1234 08:01:131090 0 EOF
            if len(fields) < 6 or not fields[4].isdigit():  # "->" for one that waits, -1 for one that is not ours
                continue
            where, _, inode = fields[5].rpartition(":")
            if inode == str(status.st_ino):
                (exact if where == device else alike).append(int(fields[4]))
    return exact or alike


def _processes() -> "list[int]":
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _has_open(pid: "int", status: "os.stat_result") -> "bool":
    folder = "/proc/%d/fd" % pid
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(os.path.join(folder, name)), status):
                    return True
    return False


def _state(pid: "int") -> "str":
    try:
        with open("/proc/%d/stat" % pid, "rb") as source:
            return source.read().rpartition(b")")[2].split()[0].decode("ascii")
    except (OSError, IndexError):
        return ""


def _command(pid: "int") -> "str":
    """The beginning of its command line, fit for a terminal."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as source:
            arguments = source.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    text = readable(b" ".join(arguments))
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:80]
