"""Many runs as columns, read from the index in a few passes and not run by run."""

from __future__ import annotations

from holdfast.store.index.rows import TRUTH
from holdfast.store.where.fields import FIELDS, IN_ROW, KEY_SHIFT, column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from holdfast.store.index.index import Index
    from holdfast.store.index.rows import Cell

    Columns: TypeAlias = "dict[str, Sequence[Cell | bool]]"

_FIRST = ("run_number", "run_id", "status", "target", "script_name", "arguments", "created_utc", "start_time_utc")
FIXED = (*_FIRST, *(name for name in FIELDS if name not in _FIRST))
_PREFIXES = (("param", "params."), ("metric", "metrics."), ("tag", "tags."))
_MOST_BOUND = 500
_OF_NAME = "SELECT key - ?, last FROM vals WHERE key BETWEEN ? AND ?"


def read(index: Index, uids: Sequence[str]) -> Columns:
    """The fixed fields of these runs, then each parameter, metric (its last value) and tag that one of them has."""
    rows = _rows(index, uids)
    absent = (None,) * (len(IN_ROW) + 2)
    ordered = [rows.get(uid, absent) for uid in uids]
    numbers, _, *cells = zip(*ordered, strict=True) if ordered else [()] * len(absent)
    fields: Columns = dict(zip(IN_ROW, cells, strict=True))
    arguments: dict[Cell, Cell] = dict(index.db.execute("SELECT run, text FROM words"))
    fields["arguments"] = list(map(arguments.get, numbers))
    for name, kind in FIELDS.items():
        if kind == "truth":
            fields[name] = [None if cell is None else bool(cell) for cell in fields[name]]
    return {**{name: fields[name] for name in FIXED}, **_values(index, numbers)}


def _rows(index: Index, uids: Sequence[str]) -> dict[str, tuple[Cell, ...]]:
    """Of many runs the whole table is read: that is quicker than to look each of them up."""
    query = f"SELECT id, uid, {', '.join(map(column, IN_ROW))} FROM runs"
    if len(uids) * 4 > index.count():
        return {row[1]: row for row in index.db.execute(query)}
    by_uid: dict[str, tuple[Cell, ...]] = {}
    for start in range(0, len(uids), _MOST_BOUND):
        part = uids[start : start + _MOST_BOUND]
        named = f"{query} WHERE uid IN ({', '.join('?' * len(part))})"
        by_uid.update((row[1], row) for row in index.db.execute(named, part))
    return by_uid


def _values(index: Index, numbers: Sequence[Cell]) -> Columns:
    columns: Columns = {}
    for kind, prefix in _PREFIXES:
        names = index.db.execute("SELECT id, name FROM names WHERE kind = ? ORDER BY name", (kind,)).fetchall()
        for number, name in names:
            cells = _placed(index, _OF_NAME, number, numbers)
            if cells.count(None) == len(cells):
                continue
            columns[f"{prefix}{name}"] = _with_truths(index, number, numbers, cells) if kind == "param" else cells
    return columns


def _with_truths(index: Index, name: int, numbers: Sequence[Cell], cells: list[Cell]) -> Sequence[Cell | bool]:
    """The index keeps true and false of a parameter as numbers, with a note."""
    truths = _placed(index, f"{_OF_NAME} AND points = {TRUTH}", name, numbers)
    if truths.count(None) == len(truths):
        return cells
    return [cell if truth is None else bool(truth) for cell, truth in zip(cells, truths, strict=True)]


def _placed(index: Index, query: str, name: int, numbers: Sequence[Cell]) -> list[Cell]:
    """The values of one name in the order of these runs. No Python code runs for a single value."""
    first = name << KEY_SHIFT
    values: dict[Cell, Cell] = dict(index.db.execute(query, (first, first, first + (1 << KEY_SHIFT) - 1)))
    return list(map(values.get, numbers))
