"""Reads logged values that are not plain numbers: pictures and tables.

They came from a target: a file name that leads out of the metrics folder is refused, and so is a file that does not
match its line.
"""

from __future__ import annotations

import os
import re
import stat

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.metrics.lines import Value

LARGEST = 16 * 1000 * 1000
_FILE = re.compile(r"\d{1,20}-\d{1,9}-\d{1,9}\.(png|jpg)", re.ASCII)
_BEGINNINGS = {"png": b"\x89PNG\r\n\x1a\n", "jpg": b"\xff\xd8\xff"}
_ROWS_SHOWN = 100


class Image(Record):
    """A picture in a file of the metrics folder."""

    file: str
    width: int
    height: int
    sha256: str

    @property
    def media_type(self) -> str:
        return "image/png" if self.file.endswith(".png") else "image/jpeg"


class Table(Record):
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def image(value: Value) -> Image | None:
    """The picture that a value refers to; None for any other value."""
    if not isinstance(value, dict) or value.get("type") != "image":
        return None
    file, width, height, digest = (value.get(name) for name in ("file", "width", "height", "sha256"))
    if not (isinstance(file, str) and _FILE.fullmatch(file) and isinstance(digest, str)):
        return None
    if not (isinstance(width, int) and isinstance(height, int)):
        return None
    return Image(file, width, height, digest)


def read_image(folder: str, logged: Image) -> bytes | None:
    """Its bytes; None where they are not here yet, or are not those that were logged."""
    import hashlib

    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(os.path.join(folder, logged.file), flags), "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                return None
            data = source.read(LARGEST + 1)
    except OSError:
        return None
    whole = hashlib.sha256(data).hexdigest() == logged.sha256 and len(data) <= LARGEST
    return data if whole and data.startswith(_BEGINNINGS[logged.file[-3:]]) else None


def table(value: Value) -> Table | None:
    """A logged table; None for any other value."""
    if not isinstance(value, dict) or value.get("type") != "table":
        return None
    columns, rows = value.get("columns"), value.get("rows")
    if not (isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        return None
    return Table(tuple(map(str, columns)), tuple(tuple(row) for row in rows if isinstance(row, list)))


def brief(value: Value) -> Value:
    """The same, with the number of its rows in place of the rows of a long table."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [brief(item) for item in value]
    rows = value.get("rows") if isinstance(value, dict) and value.get("type") == "table" else None
    if not isinstance(value, dict) or not isinstance(rows, list) or len(rows) <= _ROWS_SHOWN:
        return value
    return {**{name: item for name, item in value.items() if name != "rows"}, "row_count": len(rows)}
