"""Reads a file once from beginning to end and checks that it did not change meanwhile."""

import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    OnBytes = Optional[Callable[[int], None]]

CHUNK = 1 << 20


class Changed(Exception):
    """A file was modified while it was being read, or holds more than the ``size`` it claims."""

    def __init__(self, size: "int") -> "None":
        super().__init__(size)
        self.size = size


class Unreadable(Exception):
    """The source could not be read; an OSError, in contrast, comes from the store."""


def hash_through(
    source: "int",
    before: "os.stat_result",
    on_bytes: "OnBytes",
    write: "Callable[[bytes], object]",
) -> "str":
    """Hash a file in one pass while handing on its pieces."""
    hasher = hashlib.sha256()
    got = 0
    while True:
        piece = read_source(source, CHUNK)
        got += len(piece)
        if not piece or got > before.st_size:
            break
        hasher.update(piece)
        write(piece)
        if on_bytes is not None:
            on_bytes(len(piece))
    check_unchanged(source, before, got)
    return hasher.hexdigest()


def read_source(source: "int", size: "int") -> "bytes":
    try:
        return os.read(source, size)
    except OSError as error:
        raise Unreadable(error.strerror) from error


def check_unchanged(source: "int", before: "os.stat_result", got: "int") -> "None":
    after = os.fstat(source)
    same = (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
    if got != before.st_size or got != after.st_size or not same:
        raise Changed(before.st_size)
