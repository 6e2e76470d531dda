"""Reads a table that a target sent, without letting a small file take much memory.

An Arrow file may be compressed (25 kB hold 800 MB), may name the same bytes many times (views), and may have columns
that take no bytes at all. What Holdfast writes on a target has none of these, so that the first two are refused.
So the parts that the index at the end of the file names are looked at before a library reads them.
"""

from __future__ import annotations

import mmap
import re
import struct
from typing import TYPE_CHECKING, Any

from holdfast.api.frames import needed
from holdfast.errors import MissingPackageError

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"ARROW1"
_CONTINUES = 0xFFFFFFFF
_DICTIONARIES, _BATCHES = 2, 3  # fields of the index, and types of messages
_BLOCK = struct.Struct("<qi4xq")  # offset, length of the message's head, length of its body
_FREE_CELLS, _CELLS_PER_BYTE = 10_000_000, 64  # of a table that becomes a data frame
_SAFE_PYARROW = (14, 0, 1)  # older ones run code that an Arrow file names: CVE-2023-47248


def read(kind: str, path: Path) -> Any:
    """``kind``: pandas, polars or pyarrow. ValueError where the file is not as Holdfast writes it."""
    if kind not in ("pandas", "polars", "pyarrow"):
        raise ValueError(f"unknown type {kind!r}")
    with open(path, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            _check(data)
        except struct.error as error:
            raise ValueError("not an Arrow file") from error
    if kind == "polars":
        return needed("polars").read_ipc(path)
    table = _with_pyarrow(path)
    if kind == "pyarrow":
        return table
    # A cell takes a bit of the file or more, but columns without values take nothing, whatever their length.
    size = path.stat().st_size
    if sum(_cells(column) for column in table.columns) > _FREE_CELLS + _CELLS_PER_BYTE * size:
        raise ValueError(f"{table.num_rows} rows in a file of {size} bytes")
    return table.to_pandas()


def _with_pyarrow(path: Path) -> Any:
    pyarrow = needed("pyarrow")
    if tuple(map(int, re.findall("[0-9]+", pyarrow.__version__)[:3])) < _SAFE_PYARROW:
        what = f"pyarrow {pyarrow.__version__} can be made to run code by a file that it reads"
        raise MissingPackageError(what, hint="pip install 'pyarrow>=14.0.1'")
    with needed("pyarrow.ipc").open_file(pyarrow.memory_map(str(path))) as source:
        return source.read_all()


def _cells(column: Any) -> int:
    """Values of a column, those inside of others too."""
    return sum(_cells_of(chunk) for chunk in column.chunks)


def _cells_of(array: Any) -> int:
    kind = type(array).__name__
    if "View" in kind or kind == "RunEndEncodedArray":
        raise ValueError(f"a column of the kind {kind}")
    inner: list[Any] = []
    if kind == "StructArray":
        inner = array.flatten()
    elif kind == "MapArray":
        inner = [array.keys, array.items]
    elif hasattr(array, "storage"):  # of an extension
        inner = [array.storage]
    elif "List" in kind:
        inner = [array.values]
    return len(array) + sum(map(_cells_of, inner))


def _check(data: mmap.mmap) -> None:
    """ValueError for parts that are compressed, or that are named more than once."""
    end = len(data) - len(_MAGIC) - 4
    if data[: len(_MAGIC)] != _MAGIC or data[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("not an Arrow file")
    start = end - struct.unpack_from("<i", data, end)[0]
    index = _Table.root(data, start)
    following = len(_MAGIC)
    for at, head, body in sorted(block for field in (_DICTIONARIES, _BATCHES) for block in index.blocks(field)):
        if not following <= at <= at + head <= at + head + body <= start or head < 8 or body < 0:
            raise ValueError("the parts of the Arrow file overlap")
        following = at + head + body
        marker = struct.unpack_from("<I", data, at)[0]
        message = _Table.root(data, at + (8 if marker == _CONTINUES else 4))
        batch = message.table(2)
        if message.number("<B", 1) == _DICTIONARIES and batch is not None:
            batch = batch.table(1)
        if batch is None or batch.has(3):
            what = "the table is compressed, so that its size is not known before it is read"
            raise ValueError(f"{what}; write it to a file in outputs/ instead")


class _Table:
    """A table of FlatBuffers: https://flatbuffers.dev/internals/"""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        if not 0 <= at < len(data):
            raise ValueError("a part of the Arrow file leads outside of it")
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]
        if self._fields < 0:
            raise ValueError("a part of the Arrow file leads outside of it")

    @classmethod
    def root(cls, data: mmap.mmap, at: int) -> _Table:
        return cls(data, at + struct.unpack_from("<I", data, at)[0])

    def has(self, field: int) -> bool:
        return bool(self._position(field))

    def number(self, form: str, field: int) -> int:
        position = self._position(field)
        return int(struct.unpack_from(form, self._data, position)[0]) if position else 0

    def table(self, field: int) -> _Table | None:
        position = self._position(field)
        return _Table.root(self._data, position) if position else None

    def blocks(self, field: int) -> list[tuple[int, int, int]]:
        position = self._position(field)
        if not position:
            return []
        at = position + struct.unpack_from("<I", self._data, position)[0]
        count = struct.unpack_from("<I", self._data, at)[0]
        if count * _BLOCK.size > len(self._data):
            raise ValueError("the index of the Arrow file is longer than the file")
        return [_BLOCK.unpack_from(self._data, at + 4 + number * _BLOCK.size) for number in range(count)]

    def _position(self, field: int) -> int:
        """Of the value of a field; 0 where it has none."""
        size = struct.unpack_from("<H", self._data, self._fields)[0]
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self._data, self._fields + entry)[0] if entry + 2 <= size else 0
        return self._at + offset if offset else 0
