"""Many runs as columns, read from the index in a few passes and not run by run."""

from __future__ import annotations

from holdfast.store.index.rows import TRUTH
from holdfast.store.where.fields import FIELDS, IN_ROW, KEY_SHIFT, column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from holdfast.store.index.index import Index
    from holdfast.store.index.rows import Cell

    Columns: TypeAlias = "dict[str, Sequence[Cell | bool]]"

_FIRST = ("run_number", "run_id", "status", "target", "script_name", "arguments", "created_utc", "start_time_utc")
FIXED = (*_FIRST, *(name for name in FIELDS if name not in _FIRST))
_PREFIXES = (("param", "params."), ("metric", "metrics."), ("tag", "tags."))
_MOST_BOUND = 500


def read(index: Index, uids: Sequence[str]) -> Columns:
    """The fixed fields of these runs, then each parameter, metric (its last value) and tag that one of them has."""
    rows = _rows(index, uids)
    absent = (None,) * (len(IN_ROW) + 2)
    ordered = [rows.get(uid, absent) for uid in uids]
    numbers, _, *cells = zip(*ordered, strict=True) if ordered else [()] * len(absent)
    fields: Columns = dict(zip(IN_ROW, cells, strict=True))
    positions = {number: position for position, number in enumerate(numbers)}
    fields["arguments"] = _placed(index.db.execute("SELECT run, text FROM words"), positions, len(uids))
    for name, kind in FIELDS.items():
        if kind == "truth":
            fields[name] = [None if cell is None else bool(cell) for cell in fields[name]]
    return {**{name: fields[name] for name in FIXED}, **_values(index, positions, len(uids))}


def _rows(index: Index, uids: Sequence[str]) -> dict[str, tuple[Cell, ...]]:
    """Of many runs the whole table is read: that is quicker than to look each of them up."""
    query = f"SELECT id, uid, {', '.join(map(column, IN_ROW))} FROM runs"
    if len(uids) * 4 > index.count():
        return {row[1]: row for row in index.db.execute(query)}
    found: dict[str, tuple[Cell, ...]] = {}
    for start in range(0, len(uids), _MOST_BOUND):
        part = uids[start : start + _MOST_BOUND]
        named = f"{query} WHERE uid IN ({', '.join('?' * len(part))})"
        found.update((row[1], row) for row in index.db.execute(named, part))
    return found


def _values(index: Index, positions: dict[Cell, int], count: int) -> Columns:
    found: Columns = {}
    query = f"SELECT key & {(1 << KEY_SHIFT) - 1}, last, points FROM vals WHERE key BETWEEN ? AND ?"
    for kind, prefix in _PREFIXES:
        names = index.db.execute("SELECT id, name FROM names WHERE kind = ? ORDER BY name", (kind,)).fetchall()
        for number, name in names:
            first = number << KEY_SHIFT
            rows = index.db.execute(query, (first, first + (1 << KEY_SHIFT) - 1))
            cells = _placed(_typed(rows, kind), positions, count)
            if any(cell is not None for cell in cells):
                found[f"{prefix}{name}"] = cells
    return found


def _typed(rows: Iterable[tuple[int, Cell, int | None]], kind: str) -> Iterable[tuple[int, Cell | bool]]:
    """The index keeps true and false of a parameter as numbers, with a note."""
    if kind == "param":
        return ((run, bool(last) if points == TRUTH else last) for run, last, points in rows)
    return ((run, last) for run, last, _ in rows)


def _placed(rows: Iterable[tuple[int, Cell | bool]], positions: dict[Cell, int], count: int) -> Sequence[Cell | bool]:
    cells: list[Cell | bool] = [None] * count
    for run, value in rows:
        position = positions.get(run)
        if position is not None:
            cells[position] = value
    return cells
