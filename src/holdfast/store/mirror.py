"""The local copy of a remote run's files: received bytes are appended where the copy ends, or refused.

What comes from a target is data. Names are checked against what a run consists of, offsets against what we have, and
every block against its hash.
"""

from __future__ import annotations

import hashlib
import os
import time

from holdfast import answers
from holdfast.errors import MalformedAnswerError
from holdfast.runner import untrusted, wire
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import append_line, read_lines
from holdfast.store import runs
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.home import Home

_FILES = tuple(file.name for file in layout.mirrored)
_FOLDERS = tuple(file.name for file in layout.mirrored_folders)
_MB, _GB = 1000**2, 1000**3
_LONGEST_LOG = 10 * _GB  # where the client did not set maxLogSize itself
# Far beyond what a run of ours writes. What is read as a whole must fit in memory.
_LARGEST = {
    layout.events.name: runs.MOST_EVENT_BYTES,
    layout.runner_log.name: 256 * _MB,
    layout.manifest.name: 512 * _MB,
    layout.control.name: 16 * _MB,
    layout.plan.name: 16 * _MB,
}
_MOST_DROPPED = 16 * _MB  # beyond these limits, in one answer; a runner that is told to send no more sends less
_NO_MORE = 2**62
_MOST_FILES, _MOST_BYTES = 100_000, 20 * _GB  # of metrics/ and gpu/ together


class Quota:
    """How much a target may write into the mirror of one attempt. What goes beyond it is dropped.

    ``cut`` has the names of files that reached their limit.
    """

    def __init__(self, max_log: object, have: dict[str, int]) -> None:
        self._log = max_log if isinstance(max_log, int) and max_log > 0 else _LONGEST_LOG
        self._sizes = {name: size for name, size in have.items() if "/" in name}
        self._total = sum(self._sizes.values())
        self._dropped = 0
        self._events = 0
        self.cut: set[str] = set()

    def to_ask(self, have: dict[str, int]) -> dict[str, int]:
        """The sizes to ask with: of a file that has reached its limit nothing more is wanted."""
        return {name: _NO_MORE if size >= self.limit(name) else size for name, size in have.items()}

    def drop(self, name: str, size: int) -> None:
        """So many bytes came beyond the limit of this file; MalformedAnswerError where there is no end to them."""
        self.cut.add(name)
        self._dropped += size
        if self._dropped > _MOST_DROPPED:
            answer = f"{name} exceeds its limit of {self.limit(name)} bytes"
            raise MalformedAnswerError("the target sent more data than the limit of a run", answer=answer)

    def limit(self, name: str) -> int:
        """The largest size that the file may have; -1 if it may not be there at all."""
        if "/" not in name:
            return self._log if name == "log" else _LARGEST[name]
        if name not in self._sizes and len(self._sizes) >= _MOST_FILES:
            return -1
        return self._sizes.get(name, 0) + max(0, _MOST_BYTES - self._total)

    def count_events(self, payload: bytes) -> None:
        self._events += payload.count(b"\n")
        if self._events > runs.MOST_EVENTS:
            answer = f"{layout.events.name} exceeds its limit of {runs.MOST_EVENTS} lines"
            raise MalformedAnswerError("the target sent more data than the limit of a run", answer=answer)

    def count(self, name: str, size: int) -> None:
        if "/" in name:
            self._total += size - self._sizes.get(name, 0)
            self._sizes[name] = size


def lengths(home: Home, uid: str, attempt: str) -> dict[str, int]:
    """How much of each file of the attempt we have: the cursor is the file itself."""
    folder_of = home.run(uid, attempt)
    sizes: dict[str, int] = {}
    for folder in ("", *_FOLDERS):
        try:
            entries = list(os.scandir(os.path.join(folder_of, folder)))
        except FileNotFoundError:
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_file(follow_symlinks=False) and is_mirrored(name):
                sizes[name] = entry.stat(follow_symlinks=False).st_size
    return sizes


def append(home: Home, uid: str, attempt: str, header: Json, payload: bytes, quota: Quota) -> None:
    name, offset = header.get("file"), header.get("offset")
    if not isinstance(name, str) or not is_mirrored(name):
        raise MalformedAnswerError("the target sent a file that does not belong to a run", answer=f"{name!a:.200}")
    if hashlib.sha256(payload).hexdigest() != header.get("sha256"):
        raise MalformedAnswerError("a piece of a file arrived damaged", answer=name, hint="try again")
    if not isinstance(offset, int) or not answers.is_count(offset):
        raise answers.malformed("offset", offset, "a count")
    if name == layout.events.name:
        quota.count_events(payload)
    limit = quota.limit(name)
    if offset + len(payload) > limit:
        quota.drop(name, offset + len(payload) - max(offset, limit))
        payload = payload[: max(0, limit - offset)]
        if not payload:
            return
    path = home.run(uid, attempt, name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with home.lock("mirror"), Named(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            have = os.fstat(fd).st_size
            if offset > have:
                answer = f"{name} at {offset}, we have {have}"
                raise MalformedAnswerError("the target skipped a part of a file", answer=answer)
            wire.write_all(fd, payload[have - offset :])  # another client of ours may be ahead
            quota.count(name, max(have, offset + len(payload)))
        finally:
            os.close(fd)


def close_copy(home: Home, uid: str, attempt: str, reason: str) -> None:
    """Close our copy of an attempt as lost, because the target has nothing more to send."""
    path = home.run(uid, attempt, layout.events.name)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with home.lock("mirror"), Named(path):
        try:
            events = read_lines(os.fsencode(path), runs.MOST_EVENT_BYTES, runs.MOST_EVENTS)
        except untrusted.TooLargeError:
            return  # the run is damaged, and no line changes that
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
    """A file name of a run, or one in its folders of metrics and GPU samples."""
    folder, _, file = name.rpartition("/")
    if not folder:
        return file in _FILES
    try:
        return folder in _FOLDERS and bool(untrusted.component(file))
    except untrusted.Untrusted:
        return False
