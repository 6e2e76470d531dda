"""Finds out whether a process on a GPU belongs to a run of Holdfast."""

import os
import pwd

from ..decoding import readable

MYPY = False
if MYPY:
    from typing import Any

_DEEPEST = 100
_MARK = b"HOLDFAST_RUN_UID="


def holder(pid: "int", memory: "int | None") -> "dict[str, Any]":
    """``user`` and ``program`` are None where this machine does not tell; ``run`` is the uid of a run of ours.

    The environment of other people's processes cannot be read, so theirs count as foreign processes.
    """
    run, run_id = _run_of(pid)
    program = readable(_read(pid, "comm").strip()) or None
    return {"pid": pid, "memory": memory, "user": _user(pid), "program": program, "run": run, "run_id": run_id}


def is_of(pid: "int", uid: "bytes", container: "bytes") -> "bool":
    """Whether a process belongs to a run: it or one above it says so, or it is in the run's container."""
    if container and container in _read(pid, "cgroup"):
        return True
    for _ in range(_DEEPEST):
        marks = [part for part in _read(pid, "environ").split(b"\0") if part.startswith(_MARK)]
        if marks:
            return _MARK + uid in marks
        fields = _read(pid, "stat").rpartition(b") ")[2].split()
        if len(fields) < 2 or int(fields[1]) <= 1:
            return False
        pid = int(fields[1])
    return False


def _run_of(pid: "int") -> "tuple[str | None, str | None]":
    pairs = [part.partition(b"=") for part in _read(pid, "environ").split(b"\0")]
    variables = {name: readable(value) for name, _, value in pairs}
    return variables.get(b"HOLDFAST_RUN_UID"), variables.get(b"HOLDFAST_RUN_ID")


def _user(pid: "int") -> "str | None":
    try:
        number = os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _read(pid: "int", name: "str") -> "bytes":
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as source:
            return source.read()
    except OSError:
        return b""
