"""A canonical zip file: the same content always gives the same bytes (not compressed, no times, modes or comments).

A reader rebuilds every header and compares, so that no change, addition or omission stays unnoticed. Any zip program
can open it.
"""

from __future__ import annotations

import hashlib
import struct
from zlib import crc32

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

BLOCK = 1024 * 1024
_LOCAL = struct.Struct("<4s5H3L2H")
_LARGE = struct.Struct("<2H2Q")  # two sizes that 4 bytes cannot say
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_WIDE_END = struct.Struct("<4sQ2H2L4Q")
_WIDE_LOCATOR = struct.Struct("<4sLQL")
_END = struct.Struct("<4s4H2LH")
_PLAIN, _WIDE = 20, 45  # the version of the format that a reader must know
_NAMES_ARE_UTF8 = 0x0800
_EPOCH = 0x0021  # 1 January 1980, midnight: the first moment that the format knows
_BY_UNIX = 3 << 8
_PLAIN_FILE = 0o100644 << 16
_LIMIT = 0xFFFFFFFF
_MOST = 0xFFFF


class NotCanonical(Exception):
    """The file is not what its own content would have made. The words say where."""


class Entry(Record):
    """A file in the archive. ``at`` is where its header begins."""

    name: str
    size: int
    sha256: str
    crc: int = 0
    at: int = 0


class Writer:
    """Puts files one behind the other; ``finish`` writes the directory, without which it is no archive."""

    def __init__(self, target: BinaryIO) -> None:
        self.entries: list[Entry] = []
        self._target = target

    def add(self, name: str, size: int, blocks: Iterable[bytes]) -> Entry:
        """``size`` is what the blocks will come to; ValueError where they do not."""
        at = self._target.tell()
        self._target.write(_local(Entry(name, size, "")))
        written, crc, state = 0, 0, hashlib.sha256()
        for block in blocks:
            self._target.write(block)
            written, crc = written + len(block), crc32(block, crc)
            state.update(block)
        if written != size:
            raise ValueError(f"{name}: {written} bytes where {size} were expected")
        entry = Entry(name, size, state.hexdigest(), crc, at)
        self._target.seek(at)
        self._target.write(_local(entry))  # once more, with the checksum
        self._target.seek(0, 2)
        self.entries.append(entry)
        return entry

    def finish(self) -> None:
        self._target.write(b"".join(_directory(self.entries, self._target.tell())))


def read(source: BinaryIO, hear: Callable[[str, bytes], None]) -> list[Entry]:
    """All entries of an archive that is canonical to its last byte; ``hear`` is called with the content of each."""
    entries: list[Entry] = []
    while True:
        at = source.tell()
        head = source.read(_LOCAL.size)
        if head[:4] != b"PK\x03\x04":
            break
        entries.append(_entry(source, head, at, hear))
    source.seek(at)
    for expected in _directory(entries, at):
        if source.read(len(expected)) != expected:
            raise NotCanonical("its directory does not match its files")
    if source.read(1):
        raise NotCanonical("there is data after its end")
    return entries


def _entry(source: BinaryIO, head: bytes, at: int, hear: Callable[[str, bytes], None]) -> Entry:
    if len(head) < _LOCAL.size:
        raise NotCanonical("it is truncated")
    promised, _, size, length, more = _LOCAL.unpack(head)[6:]
    raw = source.read(length + more)
    if more == _LARGE.size:
        size = _LARGE.unpack_from(raw.ljust(length + more), length)[2]
    try:
        name = raw[:length].decode("utf-8")
    except UnicodeDecodeError:
        raise NotCanonical(f"the name at byte {at} is damaged") from None
    if head + raw != _local(Entry(name, size, "", promised)):
        raise NotCanonical(f"the header of {name!a} does not match its file")
    crc, left, state = 0, size, hashlib.sha256()
    while left:
        block = source.read(min(BLOCK, left))
        if not block:
            raise NotCanonical(f"{name!a} is truncated")
        hear(name, block)
        crc, left = crc32(block, crc), left - len(block)
        state.update(block)
    if crc != promised:
        raise NotCanonical(f"{name!a} was changed")
    return Entry(name, size, state.hexdigest(), crc, at)


def _local(entry: Entry) -> bytes:
    name, large = entry.name.encode("utf-8"), entry.size >= _LIMIT
    more = _LARGE.pack(1, 16, entry.size, entry.size) if large else b""
    size = min(entry.size, _LIMIT)
    fixed = (_WIDE if large else _PLAIN, _NAMES_ARE_UTF8, 0, 0, _EPOCH, entry.crc, size, size, len(name), len(more))
    return _LOCAL.pack(b"PK\x03\x04", *fixed) + name + more


def _directory(entries: list[Entry], at: int) -> Iterator[bytes]:
    size = 0
    for entry in entries:
        line = _line(entry)
        size += len(line)
        yield line
    count, end = len(entries), at + size
    if count >= _MOST or at >= _LIMIT or size >= _LIMIT:
        fixed = (_WIDE_END.size - 12, _BY_UNIX | _WIDE, _WIDE, 0, 0, count, count, size, at)
        yield _WIDE_END.pack(b"PK\x06\x06", *fixed)
        yield _WIDE_LOCATOR.pack(b"PK\x06\x07", 0, end, 1)
    few = min(count, _MOST)
    yield _END.pack(b"PK\x05\x06", 0, 0, few, few, min(size, _LIMIT), min(at, _LIMIT), 0)


def _line(entry: Entry) -> bytes:
    """An entry of the directory; sizes beyond 4 bytes are in a separate field."""
    name, size, at = entry.name.encode("utf-8"), min(entry.size, _LIMIT), min(entry.at, _LIMIT)
    wide = [*([entry.size] * 2 if size == _LIMIT else ()), *([entry.at] if at == _LIMIT else ())]
    more = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    version = _WIDE if wide else _PLAIN
    made = (_BY_UNIX | version, version, _NAMES_ARE_UTF8, 0, 0, _EPOCH)
    content = (entry.crc, size, size, len(name), len(more), 0, 0, 0, _PLAIN_FILE, at)
    return _CENTRAL.pack(b"PK\x01\x02", *made, *content) + name + more
