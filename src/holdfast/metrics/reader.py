"""Reads the files of a run's metrics folder, as one series per name.

The files may come from a killed process, a full disk or a hostile target. What can be read is read, the rest is listed
in ``Metrics.problems``; no content of a file raises an error.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from array import array
from itertools import accumulate, chain, compress

from holdfast.metrics import lines as metric_lines
from holdfast.metrics.direction import less_is_better
from holdfast.metrics.lines import LineReader, notes
from holdfast.metrics.values import Series, brief, spread
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any, BinaryIO, TypeAlias

Value: TypeAlias = metric_lines.Value

LIST_LIMIT = 1000  # history shows only the last value of a longer series

# The format of docs/formats.md, which track.py writes.
_MAGIC = b"hfmetric"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQQQ24x")  # magic, version, record size, pid, process start (ticks), opened (wall ns)
_RECORD_SIZE = 32  # four words: name and flags, step, wall ns, value
_FLAGS_SHIFT = 56
_NAME_MASK = (1 << _FLAGS_SHIFT) - 1
_KIND_MASK = 0x0F
_OWN_STEP = 0x80
_SHORT = 100
_FLOAT, _INT, _BOOL, _REFERRED = range(4)
_CHUNK_SIZE = _RECORD_SIZE << 15
MOST_NAMES = 10_000  # of a run, in order of appearance; each costs every command that reads the run


class Metrics(Record):
    """What was logged in a run, by name in order of first appearance, and what could not be read."""

    by_name: dict[str, Series]
    problems: tuple[str, ...]
    parameters: Mapping[str, Value] = {}
    tags: Mapping[str, Value] = {}


class Digest(Record):
    """A series in one row of a table. ``least`` and ``greatest`` are None where no finite number was logged."""

    name: str
    points: int
    last: Value
    least: float | None
    greatest: float | None
    first_step: int
    last_step: int

    @property
    def best(self) -> float | None:
        return self.least if less_is_better(self.name) else self.greatest


def read_dir(folder: str) -> Metrics:
    """Read every pair of metrics files in a folder; a folder that is not there holds none."""
    problems: list[str] = []
    metrics = _read(_record_files(folder, problems), problems)
    _lately.clear()
    if sum(len(series.values) for series in metrics.by_name.values()) < _FEW:
        _lately[folder] = metrics
    return metrics


def read_attempts(folders: Sequence[str]) -> Metrics:
    """The series of a run whose attempts went on from each other's checkpoints, in this order."""
    if len(folders) == 1:
        return read_dir(folders[0])
    from holdfast.metrics.resumed import continued

    parts = [read_dir(folder) for folder in folders]
    parameters = {name: value for part in parts for name, value in part.parameters.items()}
    tags = {name: value for part in parts for name, value in part.tags.items()}
    problems = tuple(chain(*(part.problems for part in parts)))
    return Metrics(continued([part.by_name for part in parts]), problems, parameters, tags)


def read_lately(folders: Sequence[str]) -> Metrics:
    """What ``read_dir`` found last, if it was this folder: a run's record and its rows are of the same values."""
    return (_lately.get(folders[0]) if len(folders) == 1 else None) or read_attempts(folders)


_lately: dict[str, Metrics] = {}
_FEW = 100_000  # points worth holding


def _read(paths: list[str], problems: list[str]) -> Metrics:
    files = [file for path in paths if (file := _read_file(path, problems))]
    parts: dict[str, list[Series]] = {}
    parameters: dict[str, Value] = {}
    tags: dict[str, Value] = {}
    is_beyond = False
    for file in sorted(files, key=lambda file: file.opened):
        for series in _series_of(file, problems):
            if series.name in parts or len(parts) < MOST_NAMES:
                parts.setdefault(series.name, []).append(series)
            else:
                is_beyond = True
        parameters.update(notes(file.lines, "parameter", MOST_NAMES))
        tags.update(notes(file.lines, "tag", MOST_NAMES))
    if is_beyond:
        problems.append(f"{os.path.dirname(paths[0])}: more than {MOST_NAMES} metrics; the others are not shown")
    return Metrics({name: spread(_merged(parts[name])) for name in parts}, tuple(problems), parameters, tags)


def summary(metrics: Metrics) -> dict[str, Value]:
    """Names and values as history shows them: a scalar, a list, or the last of many; None for NaN and Inf."""
    return {name: brief(_shown(series.values)) for name, series in metrics.by_name.items()}


def digest(series: Series) -> Digest:
    """How many values, the extremes and the ends of a series."""
    least, greatest = extremes(series.values)
    return Digest(
        name=series.name,
        points=len(series.values),
        last=json_value(series.values[-1]),
        least=least,
        greatest=greatest,
        first_step=series.steps[0],
        last_step=series.steps[-1],
    )


def extremes(values: Sequence[Value]) -> tuple[float | None, float | None]:
    """The least and the greatest finite number, None where there is none."""
    numbers = _finite(values)
    return min(numbers, default=None), max(numbers, default=None)


def json_value(value: Value) -> Value:
    """The value with None for every NaN and Inf in it, which JSON cannot say."""
    if isinstance(value, float):
        return value if _is_finite(value) else None
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    return value


def _shown(values: Sequence[Value]) -> Value:
    if len(values) == 1 or len(values) > LIST_LIMIT:
        return json_value(values[-1])
    if isinstance(values, array) and _is_finite(sum(values)):
        return values.tolist()
    return [json_value(value) for value in values]


def _finite(values: Sequence[Value]) -> Sequence[float]:
    if isinstance(values, array) and _is_finite(sum(values)):
        return values
    return [value for value in values if type(value) in (float, int) and _is_finite(value)]  # type: ignore[arg-type, misc]


def _is_finite(value: float) -> bool:
    return value - value == 0


# The words of the records of one name, column by column, a piece for each part of the file: name and flags, step, time,
# value. A piece of the first column has one word only where all of them are the same.
_Columns: TypeAlias = "tuple[list[array[int]], list[array[int]], list[array[int]], list[array[int]]]"


class _File(Record):
    """One pair of files: the columns of its records by the offset of their name's line."""

    path: str
    opened: int
    by_name_offset: dict[int, _Columns]
    lines: bytes


def _record_files(folder: str, problems: list[str]) -> list[str]:
    try:
        names = sorted(os.listdir(folder), key=lambda name: (len(name), name))
    except FileNotFoundError:
        return []
    except OSError as problem:
        problems.append(f"{folder}: {problem.strerror}")
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(".m")]


def _read_file(path: str, problems: list[str]) -> _File | None:
    try:
        # The records first: their lines were written before them, so those are there when we come to read them.
        with _open_regular(path) as file:
            header = file.read(_HEADER.size)
            if not header:
                return None  # just created
            if len(header) < _HEADER.size or not header.startswith(_MAGIC):
                problems.append(f"{path}: not a metrics file")
                return None
            _, version, record_size, _, _, opened = _HEADER.unpack(header)
            if (version, record_size) != (_VERSION, _RECORD_SIZE):
                problems.append(f"{path}: format {version} is of a newer Holdfast")
                return None
            by_name_offset: dict[int, _Columns] = {}
            while chunk := file.read(_CHUNK_SIZE):
                if torn := len(chunk) % _RECORD_SIZE:
                    problems.append(f"{path}: ends within a record; its last {torn} bytes are ignored")
                _group(chunk[: len(chunk) - torn], by_name_offset)
        with _open_regular(path[: -len(".m")] + ".jsonl") as file:
            lines = file.read()
    except OSError as problem:
        problems.append(
            f"{problem.filename or path}: {problem.strerror or problem}; the values of {path} are not shown"
        )
        return None
    return _File(path, opened, by_name_offset, lines)


def _open_regular(path: str) -> BinaryIO:
    # A script owns this folder: it may have put a pipe there, at which a plain open would wait for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a regular file", path)
    return open(descriptor, "rb")


def _group(records: bytes, by_name_offset: dict[int, _Columns]) -> None:
    """Sort whole records by name, keeping their order."""
    cells = array("Q", records)
    if sys.byteorder == "big":
        cells.byteswap()
    headers = cells[0::4]
    if period := _period(headers):
        for position in range(period):
            _extend(by_name_offset, headers[position : position + 1], cells, 4 * position, 4 * period)
        return
    same_name: dict[int, list[bytes]] = {}
    by_word = {word: same_name.setdefault(word & _NAME_MASK, []) for word in dict.fromkeys(headers)}
    for word, (record,) in zip(headers, struct.iter_unpack(f"{_RECORD_SIZE}s", cells), strict=True):
        by_word[word].append(record)
    for name, group in same_name.items():
        if _is_beyond_limit(by_name_offset, name):
            continue  # before its records are joined
        of_name = array("Q", b"".join(group))
        _extend(by_name_offset, of_name[0::4], of_name, 0, 4)


def _period(headers: array[int]) -> int:
    """How many records make a round, where a loop logs the same names again and again; 0 where it is not so."""
    try:
        period = headers.index(headers[0], 1)
    except (ValueError, IndexError):
        return 0
    names = {word & _NAME_MASK for word in headers[:period]}
    if len(names) != period:
        return 0
    data, length = headers.tobytes(), period * headers.itemsize  # bytes are compared faster than numbers
    return period if data[length:] == data[:-length] else 0


def _is_beyond_limit(by_name_offset: dict[int, _Columns], name: int) -> bool:
    """One name more than the limit is taken: by it the caller knows that there are more."""
    return len(by_name_offset) > MOST_NAMES and name not in by_name_offset


def _extend(
    by_name_offset: dict[int, _Columns], headers: array[int], cells: array[int], start: int, stride: int
) -> None:
    name = headers[0] & _NAME_MASK
    if _is_beyond_limit(by_name_offset, name):
        return
    columns = by_name_offset.setdefault(name, ([], [], [], []))
    columns[0].append(headers)
    for index in (1, 2, 3):
        columns[index].append(cells[start + index :: stride])


def _series_of(file: _File, problems: list[str]) -> Iterator[Series]:
    nameless = 0
    reader = LineReader(file.lines)
    for name_offset, columns in file.by_name_offset.items():
        name = reader.content(name_offset).get("name")
        if not isinstance(name, str):
            nameless += sum(map(len, columns[1]))
            continue
        kinds = {word: _kind(word) for piece in columns[0] for word in set(piece)}
        known = _of_known_kinds(columns, kinds, file, problems)
        if known[0]:
            values = _values(known, kinds, reader)
            own_steps = any(word >> _FLAGS_SHIFT & _OWN_STEP for word in kinds)
            yield Series(name, _joined("q", known[1]), _joined("Q", known[2]), values, own_steps)
    if nameless:
        problems.append(f"{file.path}: {nameless} values have no readable name")
    if reader.missing:
        problems.append(f"{file.path}: {reader.missing} values that are not numbers are damaged and shown as null")


def _of_known_kinds(columns: _Columns, kinds: dict[int, int], file: _File, problems: list[str]) -> _Columns:
    if max(kinds.values()) <= _REFERRED:
        return columns
    headers = _full(columns)
    known = [kinds[word] <= _REFERRED for word in headers]
    problems.append(f"{file.path}: {known.count(False)} values are of a kind only a newer Holdfast can read")
    if not any(known):
        return [], [], [], []
    whole = (headers, *(_joined("Q", column) for column in columns[1:]))
    first, steps, times, bits = ([array("Q", compress(column, known))] for column in whole)
    return first, steps, times, bits


def _full(columns: _Columns) -> array[int]:
    """A word for each record."""
    return _joined(
        "Q", [piece * (len(steps) // len(piece)) for piece, steps in zip(columns[0], columns[1], strict=True)]
    )


def _values(columns: _Columns, kinds: dict[int, int], reader: LineReader) -> Sequence[Value]:
    if not any(kinds.values()):  # all are plain
        return _joined("d", columns[3])
    bits = _joined("Q", columns[3])
    doubles = _joined("d", [bits])
    return [
        _value(kinds[word], double, offset, reader)
        for word, double, offset in zip(_full(columns), doubles, bits, strict=True)
    ]


def _value(kind: int, double: float, offset: int, reader: LineReader) -> Value:
    if kind == _REFERRED:
        return reader.value(offset)
    if kind == _FLOAT or not _is_finite(double):
        return double
    return int(double) if kind == _INT else bool(double)


def _kind(word: int) -> int:
    return word >> _FLAGS_SHIFT & _KIND_MASK


def _joined(typecode: str, pieces: list[array[int]]) -> array[Any]:
    """The bits of all pieces as numbers of that type. Laid out in one go: an array that grows is moved repeatedly."""
    if len(pieces) == 1:
        return array(typecode, pieces[0].tobytes())
    whole = array(typecode, bytes(8)) * sum(map(len, pieces))
    target, at = memoryview(whole).cast("B"), 0
    for piece in pieces:
        data = memoryview(piece).cast("B")
        target[at : at + len(data)] = data
        at += len(data)
    return whole


def _merged(parts: list[Series]) -> Series:
    """One series of several files, by time; a file whose clock was set back keeps its own order."""
    if len(parts) == 1:
        return parts[0]
    moments = array("Q", chain.from_iterable(accumulate(part.times, max) for part in parts))
    order = array("Q", sorted(range(len(moments)), key=moments.__getitem__))
    steps = array("q", chain.from_iterable(part.steps for part in parts))
    times = array("Q", chain.from_iterable(part.times for part in parts))
    floats = all(isinstance(part.values, array) for part in parts)
    values = _sequence(chain.from_iterable(part.values for part in parts), floats)
    return Series(
        parts[0].name,
        array("q", map(steps.__getitem__, order)),
        array("Q", map(times.__getitem__, order)),
        _sequence(map(values.__getitem__, order), floats),
        any(part.has_own_steps for part in parts),
    )


def _sequence(values: Iterable[Value], floats: bool) -> Sequence[Value]:
    return array("d", values) if floats else list(values)  # type: ignore[type-var]
