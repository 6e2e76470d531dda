"""The values of a metric: series of numbers, and logged pictures and tables.

Pictures came from a target: a file name that leads out of the metrics folder is refused, and so is a file that does not
match its line.
"""

from __future__ import annotations

import os
import re
import stat
from array import array

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.metrics.lines import Value

LARGEST = 16 * 1000 * 1000
_FILE = re.compile(r"\d{1,20}-\d{1,9}-\d{1,9}\.(png|jpg)", re.ASCII)
_BEGINNINGS = {"png": b"\x89PNG\r\n\x1a\n", "jpg": b"\xff\xd8\xff"}
_ROWS_SHOWN = 100


class Series(Record):
    """All values of one name in the order they were logged; times in ns. An array where all values are floats."""

    name: str
    steps: Sequence[int]
    times: Sequence[int]
    values: Sequence[Value]
    has_own_steps: bool = False  # the script gave them


def spread(series: Series) -> Series:
    """A list of numbers that was logged in one call, as a value per step; any other series as it is.

    The scripts of 2017 collected one value per epoch and logged the list at the end.
    """
    logged = series.values[0]
    if len(series.values) != 1 or not isinstance(logged, list) or len(logged) < 2:
        return series
    numbers = [value for value in logged if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if not numbers or len(numbers) + logged.count(None) < len(logged):
        return series
    values: Sequence[Value] = logged
    if not all(isinstance(value, int) for value in logged):
        values = array("d", (float(value) if isinstance(value, (int, float)) else float("nan") for value in logged))
    return Series(series.name, array("q", range(len(logged))), array("Q", series.times) * len(logged), values)


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
