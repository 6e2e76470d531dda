"""The mirror of a run that lives elsewhere: bytes are appended where our copy ends, or not at all.

What comes from a target is data. Names are checked against what a run consists of, offsets against what we have, and
every block against its hash.
"""

from __future__ import annotations

import hashlib
import os
import time

from holdfast.errors import UnreachableError
from holdfast.runner import untrusted, wire
from holdfast.runner.jsonl import append_line, read_lines
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.home import Home

_FILES = ("events.jsonl", "log", "runner.log", "outputs.jsonl", "control.jsonl", "plan.json")
_FOLDERS = ("metrics", "gpu")


def lengths(home: Home, uid: str, attempt: str) -> dict[str, int]:
    """How much of each file of the attempt we have: the cursor is the file itself."""
    folder_of = home.run(uid, attempt)
    found: dict[str, int] = {}
    for folder in ("", *_FOLDERS):
        try:
            entries = list(os.scandir(os.path.join(folder_of, folder)))
        except FileNotFoundError:
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_file(follow_symlinks=False) and is_mirrored(name):
                found[name] = entry.stat(follow_symlinks=False).st_size
    return found


def append(home: Home, uid: str, attempt: str, header: Json, payload: bytes) -> None:
    name, offset = header.get("file"), header.get("offset")
    if not isinstance(name, str) or not is_mirrored(name):
        raise UnreachableError("the target sent a file that no run has", answer=repr(name)[:200])
    if hashlib.sha256(payload).hexdigest() != header.get("sha256"):
        raise UnreachableError("a piece of a file arrived damaged", answer=name, hint="try again")
    path = home.run(uid, attempt, name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with home.lock("mirror"), Named(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            have = os.fstat(fd).st_size
            if not isinstance(offset, int) or offset > have:
                raise UnreachableError(
                    "the target skipped a part of a file", answer=f"{name} at {offset}, we have {have}"
                )
            wire.write_all(fd, payload[have - offset :])  # another client of ours may be ahead
        finally:
            os.close(fd)


def close_copy(home: Home, uid: str, attempt: str, reason: str) -> None:
    """Close our copy of an attempt as lost, because the target has nothing more to send."""
    path = home.run(uid, attempt, "events.jsonl")
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with home.lock("mirror"), Named(path):
        events = read_lines(os.fsencode(path))
        if any(event.get("type") == "closed" for event in events):
            return
        closing: Json = {"seq": len(events), "wall_ns": time.time_ns(), "mono_ns": 0, "boot_id": "", "type": "closed"}
        closing.update(outcome="lost", exit_code=125, reason=reason, files={})
        if _ends_within_line(path):
            with open(path, "ab") as target:
                target.write(b"\n")
        append_line(os.fsencode(path), closing)


def _ends_within_line(path: str) -> bool:
    try:
        with open(path, "rb") as source:
            return not source.read().endswith(b"\n") and bool(source.tell())
    except FileNotFoundError:
        return False


def is_mirrored(name: str) -> bool:
    """A plain file name of a run, or one folder down where metrics and GPU samples lie."""
    folder, _, file = name.rpartition("/")
    if not folder:
        return file in _FILES
    try:
        return folder in _FOLDERS and bool(untrusted.component(file))
    except untrusted.Untrusted:
        return False
