"""The files of the index: a database, a file of records beside it, and a checksum of the one.

SQLite does not notice a flipped bit, so the database is summed whole, in parts by several threads, whenever it is
opened. Records are many times larger and few are wanted at a time: each has its own sum in the database.
"""

from __future__ import annotations

import io
import os
import sqlite3
from binascii import crc32

from holdfast.query.fields import FIELDS, IN_ROW, column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

VERSION = 3
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
_BLOCK = 1024 * 1024
_PART = 16 * _BLOCK
_THREADS = 4


class Records:
    """Records one after another, each found by its place and believed by its sum."""

    def __init__(self, path: str | None) -> None:
        self._file: BinaryIO = io.BytesIO() if path is None else open(path, "a+b")  # noqa: SIM115

    def append(self, record: bytes) -> tuple[int, int, int]:
        """Its place, length and sum."""
        place = self._file.seek(0, os.SEEK_END)
        self._file.write(record)
        return place, len(record), crc32(record)

    def read(self, place: int, length: int, checksum: int) -> bytes | None:
        """None for one that is not as it was written."""
        self._file.seek(place)
        found = self._file.read(length)
        return found if len(found) == length and crc32(found) == checksum else None

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def connect(path: str) -> sqlite3.Connection:
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
    """Whether the index is as its last writer left it. A journal means that a writer was killed."""
    try:
        with open(f"{path}.sum", encoding="ascii") as source:
            said, _, least = source.read().partition(" ")
        whole = said == _sum(path) and os.path.getsize(records_path(path)) >= int(least)
        return whole and not os.path.exists(f"{path}-journal")
    except (FileNotFoundError, ValueError):
        return False


def seal(path: str) -> None:
    with open(f"{path}.sum", "w", encoding="ascii") as target:
        target.write(f"{_sum(path)} {os.path.getsize(records_path(path))}\n")


def discard(path: str) -> None:
    for name in (path, records_path(path), f"{path}.sum", f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue


def _sum(path: str) -> str:
    """CRC-32 of the CRC-32s of its parts."""
    with open(path, "rb", buffering=0) as source:
        starts = range(0, os.fstat(source.fileno()).st_size, _PART)
        sums = [0] * len(starts)
        problems: list[OSError] = []

        def add_up(first: int) -> None:
            try:
                for number in range(first, len(starts), _THREADS):
                    sums[number] = _sum_of_part(source.fileno(), starts[number])
            except OSError as problem:
                problems.append(problem)

        if len(starts) > 1 and hasattr(os, "pread"):
            from threading import Thread

            threads = [Thread(target=add_up, args=(first,)) for first in range(_THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for first in range(_THREADS):
                add_up(first)
    if problems:
        raise problems[0]
    return f"{crc32(b''.join(part.to_bytes(4, 'big') for part in sums)):08x}"


def _sum_of_part(descriptor: int, start: int) -> int:
    found = 0
    for at in range(start, start + _PART, _BLOCK):
        block = _read_at(descriptor, at)
        if not block:
            break
        found = crc32(block, found)
    return found


def _read_at(descriptor: int, at: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, _BLOCK, at)
    os.lseek(descriptor, at, os.SEEK_SET)
    return os.read(descriptor, _BLOCK)
