"""The files of the index: a database, a file of records beside it, and a checksum of the one.

SQLite does not notice a flipped bit, so the database is summed whole whenever it is opened. Above ``LARGE`` that would
take longer than the answer; there the file's time of change has to be the one that its last writer gave it, which
notices other writers but not damaged disks. Records are larger still and few are wanted at a time: each
has a sum of its own in the database.
"""

from __future__ import annotations

import io
import os
import sqlite3
import time
from binascii import crc32

from holdfast.store.where.fields import FIELDS, IN_ROW, column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

VERSION = 7
_KINDS = {"number": "INTEGER", "truth": "INTEGER", "duration": "REAL", "text": "TEXT"}
SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, {", ".join(f"{column(name)} {_KINDS[FIELDS[name]]}" for name in IN_ROW)},
  stamp INTEGER, started REAL, final INTEGER, mark INTEGER, place INTEGER, length INTEGER, sum INTEGER
);
CREATE TABLE words (run INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE names (id INTEGER PRIMARY KEY, kind TEXT, name TEXT, UNIQUE (kind, name));
CREATE TABLE vals (key INTEGER PRIMARY KEY, last, least, greatest, points INTEGER);
CREATE UNIQUE INDEX runs_by_uid ON runs (uid);
CREATE INDEX runs_by_project ON runs (experiment_id, run_number);
CREATE INDEX runs_by_id ON runs (run_id);
CREATE INDEX runs_open ON runs (final) WHERE final = 0;
"""
LARGE = 32 << 20  # bytes, of some 15,000 runs
_BLOCK = 1024 * 1024


class Records:
    """Records one after another, each found by its offset and verified by its checksum."""

    def __init__(self, path: str | None) -> None:
        self._file: BinaryIO = io.BytesIO() if path is None else open(path, "a+b", opener=_private)  # noqa: SIM115

    def append(self, record: bytes) -> tuple[int, int, int]:
        """Its place, length and sum."""
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(record)
        return offset, len(record), crc32(record)

    def read(self, offset: int, length: int, checksum: int) -> bytes | None:
        """None for one that is not as it was written."""
        self._file.seek(offset)
        record = self._file.read(length)
        return record if len(record) == length and crc32(record) == checksum else None

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        try:
            self._file.close()
        except OSError:
            return  # a full disk: the flush has failed, and the database has no entry for these


def _private(path: str, flags: int) -> int:
    """Opens for ``open``: a file that is made now can be read by its owner only, as arguments of scripts are in it."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)


def connect(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        os.close(_private(path, os.O_RDWR | os.O_CREAT))
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")  # derived: a power cut costs a rebuild, not a run
    db.execute("PRAGMA cache_size = -32768")
    return db


def connect_or_make(path: str) -> sqlite3.Connection:
    """The database, emptied where another Holdfast made it."""
    db = connect(path)
    if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        db.close()
        discard(path)
        db = connect(path)
        db.executescript(SCHEMA + f"PRAGMA user_version = {VERSION};")
    return db


def records_path(path: str) -> str:
    return f"{path}.records"


def is_sound(path: str) -> bool:
    return not complaint(path)


def complaint(path: str) -> str:
    """Why the index is not as its last writer left it; empty where it is. A journal means that a writer was killed."""
    unfinished = "the last write to it was not completed: its command was killed, or the disk was full"
    try:
        with open(f"{path}.sum", encoding="ascii") as source:
            checksum, least, stamp = source.read().split()
        size = os.path.getsize(records_path(path))
        if os.path.exists(f"{path}-journal"):
            return unfinished
        status = os.stat(path)
        is_known = size >= int(least) and status.st_size > LARGE and status.st_mtime_ns == int(stamp)
        if is_known or (size >= int(least) and checksum == _sum(path)):
            return ""
        if size > int(least):  # of a write whose checksum was not noted
            return unfinished
    except (FileNotFoundError, ValueError):
        return unfinished
    return "it is not what was last written: another program or the disk changed it, or a write was cut off"


def seal(path: str, *, whole: bool) -> None:
    """Note that the index is as it should be. ``whole``: much was written, and a large file is worth its sum."""
    known = whole or os.path.getsize(path) <= LARGE
    checksum = _sum(path) if known else "-"
    stamp = _set_stamp(path)
    with open(f"{path}.sum", "w", encoding="ascii", opener=_private) as target:
        target.write(f"{checksum} {os.path.getsize(records_path(path))} {stamp}\n")


def _set_stamp(path: str) -> int:
    """Set a modification time that no clock will show again, so that every later write changes it."""
    past = time.time_ns() - 10**9 - int.from_bytes(os.urandom(3), "big")
    os.utime(path, ns=(past, past))
    return os.stat(path).st_mtime_ns


def discard(path: str) -> None:
    for name in (path, records_path(path), f"{path}.sum", f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue


def _sum(path: str) -> str:
    checksum = 0
    with open(path, "rb") as source:
        while block := source.read(_BLOCK):
            checksum = crc32(block, checksum)
    return f"{checksum:08x}"
