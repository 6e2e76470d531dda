"""Recognises the processes of another run among the descendants of this one.

A script may start runs of its own (``holdfast submit --no-wait`` in a loop). They are runs like any other: they outlive
the script and are not among what it left running. A variable or a name is not evidence, for a script can set both. The
evidence is the ``alive`` lock of an attempt, held by a process that this attempt's first event names. The first process
of a container imports this file too, so it also runs under Python 2.7.
"""

import os

MYPY = False
if MYPY:
    from typing import Any  # noqa: F401 - in comments

_LOCK = r"(?P<run>(?P<store>/(?:.|\n)*)/runs/(?P<uid>[0-9a-f]{32}))/(?P<attempt>a[0-9]+)/alive\Z"
_FIRST_EVENT = 1 << 16  # bytes that are read of a file of events


def is_other_run(pid, own):
    # type: (int, str) -> bool
    """Whether this process is guardian or supervisor of a run other than ``own``, a uid."""
    for attempt in _held_attempts(pid, own):
        first = _first_event(attempt)
        for name, started in (("pid", "start_time"), ("guardian", "guardian_start")):
            if first.get(name) == pid and first.get(started) in (None, _start_time(pid)):
                return True
    return False


def session_of(pid):
    # type: (int) -> str
    """Watchers lead a session of their own: a process in its parent's session need not be looked at."""
    return (_stat(pid) or [""] * 4)[3]


def parent_of(pid):
    # type: (int) -> int
    return int((_stat(pid) or ["", "0"])[1])


def _held_attempts(pid, own):
    # type: (int, str) -> list[str]
    """Folders of attempts whose ``alive`` file this process holds locked."""
    import re

    attempts = []
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        try:
            path = os.readlink(os.path.join(folder, name))
        except OSError:
            continue
        match = re.match(_LOCK, path)
        if match and match.group("uid") != own and _is_run(match) and _is_locked(pid, name):
            attempts.append(os.path.dirname(path))
    return attempts


def _is_run(match):
    # type: (Any) -> bool
    """A run of a store: in its history, and to be ended by ``holdfast cancel``."""
    wanted = (("store", "store.json"), ("run", "run.json"))
    return all(os.path.isfile(os.path.join(match.group(group), name)) for group, name in wanted)


def _is_locked(pid, name):
    # type: (int, str) -> bool
    """The kernel lists locks by the open file, so that a descriptor that was inherited counts."""
    lines = _read("/proc/%d/fdinfo/%s" % (pid, name)).splitlines()
    locks = [line.split() for line in lines if line.startswith(b"lock:")]
    return any(b"FLOCK" in fields and b"WRITE" in fields for fields in locks)


def _first_event(attempt):
    # type: (str) -> dict[str, Any]
    import json

    try:
        event = json.loads(_read(os.path.join(attempt, "events.jsonl")).split(b"\n")[0].decode("utf-8"))
    except (ValueError, RuntimeError):  # nested too deeply
        return {}
    return event if isinstance(event, dict) and event.get("type") == "accepted" else {}


def _start_time(pid):
    # type: (int) -> str
    return (_stat(pid) or [""] * 20)[19]


def _stat(pid):
    # type: (int) -> list[str]
    text = _read("/proc/%d/stat" % pid).decode("ascii", "replace")
    return [str(word) for word in text[text.rindex(")") + 2 :].split()] if ")" in text else []


def _read(path):
    # type: (str) -> bytes
    try:
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(source, _FIRST_EVENT)
    except OSError:
        return b""
    finally:
        os.close(source)
