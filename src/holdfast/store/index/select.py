"""Selects runs from the index: ``history list --where --sort --columns``."""

from __future__ import annotations

import time

from holdfast.record import Record
from holdfast.store import history_record
from holdfast.store.index.index import WHERE_IT_IS
from holdfast.store.where import grammar, sql
from holdfast.store.where.fields import FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Json
    from holdfast.store.index.index import Index

_RECORD = "record"  # the kind of a column that is read from the whole record
_ONLY_IN_RECORDS = history_record.FIXED - set(FIELDS)
_NEWEST_FIRST = {True: "r.stamp DESC", False: "r.run_number DESC"}


class Wish(Record):
    """``project_id`` None means all projects, ``limit`` None all runs, ``columns`` None whole records."""

    project_id: str | None = None
    where: str | None = None
    sort: str | None = None
    limit: int | None = None
    columns: str | None = None
    archived: bool = False


def select(index: Index, selection: Wish) -> tuple[list[Json], list[str] | None]:
    """Whole records; or only the requested columns, with their titles."""
    return rows_of(index, selection, numbers(index, selection))


def numbers(index: Index, selection: Wish) -> list[int]:
    """Which runs, in order, as numbers of the index; ``columns`` does not matter."""
    return _numbers(index, selection, time.time())


def rows_of(index: Index, selection: Wish, numbers: Sequence[int]) -> tuple[list[Json], list[str] | None]:
    """What ``columns`` names of these runs, or their whole records."""
    columns = _columns(index, selection, time.time())
    if columns is None:
        query = f"SELECT {WHERE_IT_IS} FROM runs WHERE id = ?"
        return [index.record_at(*index.db.execute(query, (number,)).fetchone()) for number in numbers], None
    query = f"SELECT {', '.join(column.sql for column in columns)} FROM runs r WHERE r.id = ?"
    values = tuple(value for column in columns for value in column.values)
    rows = []
    for number in numbers:
        row = index.db.execute(query, (*values, number)).fetchone()
        rows.append({column.title: _shown(column.kind, cell) for column, cell in zip(columns, row, strict=True)})
        _add_from_record(index, number, [column.title for column in columns if column.kind == _RECORD], rows[-1])
    return rows, [column.title for column in columns]


def cells_of(index: Index, selection: Wish, numbers: Sequence[int]) -> list[list[object]]:
    """Column by column what ``columns`` names of these runs, read in one pass; None for what is in records only."""
    columns = _columns(index, selection, time.time()) or []
    query = f"SELECT r.id, {', '.join(column.sql for column in columns)} FROM runs r"
    values = tuple(value for column in columns for value in column.values)
    known = {row[0]: row for row in index.db.execute(query, values)} if columns else {}
    return [
        [_shown(column.kind, known[number][at]) for number in numbers] for at, column in enumerate(columns, start=1)
    ]


def uids(index: Index, selection: Wish) -> list[str]:
    """Only which runs; ``columns`` does not matter."""
    chosen = numbers(index, selection)
    if len(chosen) * 4 > index.count():
        known = dict(index.db.execute("SELECT id, uid FROM runs"))
        return [known[number] for number in chosen]
    return uids_of(index, chosen)


def uids_of(index: Index, numbers: Sequence[int]) -> list[str]:
    query = "SELECT uid FROM runs WHERE id = ?"
    return [str(index.db.execute(query, (number,)).fetchone()[0]) for number in numbers]


def _add_from_record(index: Index, number: int, names: list[str], row: Json) -> None:
    if names:
        where = index.db.execute(f"SELECT {WHERE_IT_IS} FROM runs WHERE id = ?", (number,)).fetchone()
        record = index.record_at(*where)
        row.update((name, record.get(name)) for name in names)


def _columns(index: Index, selection: Wish, now: float) -> list[sql.Column] | None:
    if selection.columns is None:
        return None
    source, names = grammar.read_names("--columns", selection.columns)
    return [
        sql.Column(name.text, _RECORD, "NULL")
        if name.text in _ONLY_IN_RECORDS
        else _with_truth(sql.resolve(source, name, index, now))
        for name in names
    ]


def _with_truth(column: sql.Column) -> sql.Column:
    """The index keeps true and false of a parameter as numbers, with a note; no parameter is the text true."""
    if column.kind != "param":
        return column
    worded = "CASE WHEN v.points IS NULL THEN v.last WHEN v.last THEN 'true' ELSE 'false' END"
    return column._replace(sql=column.sql.replace("v.last", worded, 1))


def _shown(kind: str, value: object) -> object:
    if kind == "param" and value in ("true", "false"):
        return value == "true"
    return bool(value) if kind == "truth" and value is not None else value


def _numbers(index: Index, selection: Wish, now: float) -> list[int]:
    """Which runs, in order; what to show of them is looked up for these alone."""
    joins = sql.Joins()
    conditions: list[sql.Clause] = []
    orders = [sql.Clause(_NEWEST_FIRST[selection.project_id is None])]
    if selection.where is not None:
        conditions.append(sql.where(*grammar.read_where(selection.where), index, now, joins))
    if selection.project_id is not None:
        conditions.append(sql.Clause("r.experiment_id = ?", (selection.project_id,)))
    if not selection.archived:
        conditions.append(sql.Clause("r.hidden = 0"))
    if selection.sort is not None:
        orders.insert(0, sql.order(*grammar.read_sort(selection.sort), index, now, joins))
    source = _source(index, selection, joins)
    query = (
        f"SELECT r.id FROM {source.sql}"
        f" WHERE {' AND '.join(clause.sql for clause in conditions) or '1'}"
        f" ORDER BY {', '.join(clause.sql for clause in orders)} LIMIT ?"
    )
    values = [value for clause in (source, *conditions, *orders) for value in clause.values]
    limit = -1 if selection.limit is None else selection.limit
    return [row[0] for row in index.db.execute(query, (*values, limit))]


def _source(index: Index, selection: Wish, joins: sql.Joins) -> sql.Clause:
    """Values are stored in the order of runs: for a project with many runs, all are read in one pass."""
    if selection.project_id is None:
        return joins.of_values() or joins.of_runs()
    if selection.where is None and selection.sort is None:
        return joins.of_runs()
    many = index.count() // 8
    query = "SELECT count(*) FROM (SELECT 1 FROM runs WHERE experiment_id = ? LIMIT ?)"
    if index.db.execute(query, (selection.project_id, many + 1)).fetchone()[0] <= many:
        return joins.of_runs()
    return joins.of_values() or joins.of_runs(" NOT INDEXED")
