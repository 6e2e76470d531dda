"""What the last snapshot of a project saw: the state in which each file was hashed, and the tree of each folder.

A file whose size, times and inode are still those of the cache is not read again. The cache is only a shortcut: where
it is missing, damaged or of another version it is empty, and is rebuilt.
"""

from __future__ import annotations

import hashlib
import os
import struct

from holdfast.runner.store.files import UNSYNCED, write_whole

_MAGIC = b"holdfast stat cache 2\n"
_HEADER = struct.Struct("<QQQ")
_STATE = struct.Struct("<QqqQ")
_COUNT = struct.Struct("<Q24x")
_STATE_SIZE = 32
_RECORD_SIZE = 64
_INODE_MASK = (1 << 64) - 1
# File times advance in ticks: of up to 10 ms, seen from a clock that may not be ours, or of one or two whole seconds.
_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_000_000_000


class StatCache:
    """``files``: path to state and digest. ``folders``: path to number of entries and digest. 64 bytes each."""

    def __init__(self, files: dict[bytes, bytes], folders: dict[bytes, bytes]) -> None:
        self.files = files
        self.folders = folders

    @classmethod
    def load(cls, path: str | None) -> StatCache:
        try:
            with open(path or os.devnull, "rb") as stream:
                return cls(*_decode(stream.read()))
        except (OSError, ValueError, struct.error):
            return cls({}, {})

    def tree(self) -> str | None:
        """The digest of the whole project, if the last snapshot was finished."""
        record = self.folders.get(b"")
        return None if record is None else digest_in(record)

    def entries_in(self, folder: bytes) -> int:
        record = self.folders.get(folder)
        return -1 if record is None else int(_COUNT.unpack_from(record)[0])

    def save(self, path: str) -> None:
        """Replace the cache in one step. It is not synced: its checksum tells what a power cut made of it."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_whole(path, _encode(self.files, self.folders), sync=UNSYNCED)


def state_of(status: os.stat_result) -> bytes:
    return _STATE.pack(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino & _INODE_MASK)


def is_racy(status: os.stat_result, looked_ns: int) -> bool:
    """Whether the file could change once more without its state showing it, because the clock has not ticked yet."""
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    return newest > looked_ns - (_TICK_NS if newest % 1_000_000_000 else _COARSE_TICK_NS)


def file_record(status: os.stat_result, digest: str) -> bytes:
    return state_of(status) + bytes.fromhex(digest)


def link_record(status: os.stat_result) -> bytes:
    return state_of(status) + bytes(32)


def folder_record(count: int, digest: str) -> bytes:
    return _COUNT.pack(count) + bytes.fromhex(digest)


def digest_in(record: bytes) -> str:
    return record[_STATE_SIZE:].hex()


def _encode(files: dict[bytes, bytes], folders: dict[bytes, bytes]) -> bytes:
    names = b"\0".join((*files, *folders))
    header = _HEADER.pack(len(files), len(folders), len(names))
    body = b"".join((header, names, *files.values(), *folders.values()))
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(data: bytes) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    start = len(_MAGIC) + 32
    if not data.startswith(_MAGIC) or hashlib.sha256(data[start:]).digest() != data[len(_MAGIC) : start]:
        raise ValueError("not a stat cache")
    files, _, length = _HEADER.unpack_from(data, start)
    start += _HEADER.size
    names = data[start : start + length].split(b"\0")
    start += length
    records = [data[at : at + _RECORD_SIZE] for at in range(start, len(data), _RECORD_SIZE)]
    return (
        dict(zip(names[:files], records[:files], strict=True)),
        dict(zip(names[files:], records[files:], strict=True)),
    )
