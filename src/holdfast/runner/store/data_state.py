"""The state of data: by it is known, without reading, that no file was written to since its content was hashed."""

import hashlib
import os
import stat

from . import objects
from .files import unlink_quietly, write_all, write_whole

MYPY = False
if MYPY:
    from collections.abc import Iterable

_NAME = b"verified"
_SPARE_ROWS = 1000


def fingerprint(path: "bytes") -> "str":
    """The state of all files below a folder, or of a file, without reading them: equal as long as none was written to.

    The time of the last change counts, which no program can set. Hard links change it too.
    """
    rows = [_row(b"", os.lstat(path))]
    waiting = [b""] if os.path.isdir(path) else []
    while waiting:
        prefix = waiting.pop()
        with os.scandir(os.path.join(path, prefix)) as entries:
            for entry in entries:
                name, status = prefix + entry.name, entry.stat(follow_symlinks=False)
                rows.append(_row(name, status))
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(name + b"/")
    rows.sort()
    return hashlib.sha256(b"\n".join(rows)).hexdigest()


def _row(name: "bytes", status: "os.stat_result") -> "bytes":
    if stat.S_ISDIR(status.st_mode):
        return b"%s\0d" % name
    return b"%s\0%s" % (name, _state(status))


def _state(status: "os.stat_result") -> "bytes":
    return b"%d %d %d %d" % (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class VerifiedObjects:
    """In which state each object below ``root`` was when its content was last known to be right.

    What makes or removes a hard link to an object changes its state, and adds the new one. A row that is lost costs
    time only: the object is read again.
    """

    def __init__(self, root: "bytes") -> "None":
        self._root = root
        self._path = os.path.join(root, _NAME)
        self._states = None  # type: dict[bytes, bytes] | None
        self._new = {}  # type: dict[bytes, bytes]
        self._rows = 0

    def is_right(self, digest: "str", status: "os.stat_result | None") -> "bool":
        """Whether the object, or a hard link to it, is as it was when it was verified."""
        return status is not None and self._all().get(digest.encode("ascii")) == _state(status)

    def right(self, digests: "Iterable[str]") -> "list[str]":
        """Those whose objects are so."""
        return [digest for digest in digests if self.is_right(digest, self._status(digest))]

    def add(self, *digests: "str") -> "None":
        """The objects are right in their present state."""
        for digest in digests:
            status = self._status(digest)
            if status is not None:
                self._new[digest.encode("ascii")] = self._all()[digest.encode("ascii")] = _state(status)

    def drop(self, digest: "str") -> "None":
        """Its content has to be read before it is used."""
        self._new[digest.encode("ascii")] = self._all()[digest.encode("ascii")] = b"0"

    def save(self) -> "None":
        if not self._new or not os.path.isdir(self._root):
            return
        if self._rows + len(self._new) > 2 * len(self._all()) + _SPARE_ROWS:
            self.compact()
        else:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                write_all(fd, b"\n" + _lines(self._new))  # the line before may be incomplete
            finally:
                os.close(fd)
        self._new = {}

    def compact(self) -> "None":
        """Leave out objects that are gone."""
        states = self._all()
        kept = {digest: states[digest] for digest in states if self._status(digest.decode("ascii")) is not None}
        if kept:
            write_whole(self._path, _lines(kept))
        else:
            unlink_quietly(self._path)

    def _status(self, digest: "str") -> "os.stat_result | None":
        try:
            return os.lstat(objects.object_path(self._root, digest))
        except OSError:
            return None

    def _all(self) -> "dict[bytes, bytes]":
        if self._states is None:
            self._states = {}
            try:
                with open(self._path, "rb") as source:
                    for line in source:
                        self._rows += 1
                        digest, _, state = line.partition(b" ")
                        if len(digest) == 64 and line.endswith(b"\n"):
                            self._states[digest] = state[:-1]
            except OSError:
                pass  # none was verified yet
        return self._states


def _lines(states: "dict[bytes, bytes]") -> "bytes":
    return b"".join(b"%s %s\n" % row for row in sorted(states.items()))
