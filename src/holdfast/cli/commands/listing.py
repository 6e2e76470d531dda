"""``holdfast history list``"""

from __future__ import annotations

import sys

from holdfast.cli import pick
from holdfast.errors import UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import human_duration, is_tty
from holdfast.store import history_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json
    from holdfast.store.index.index import Index

_COLUMNS = frozenset(("run_number", "duration", "run_id", "script_name", "start_time_utc", "status", "target"))
_CHOOSING = ("where", "sort", "limit", "columns")


def list_runs(parsed: Parsed) -> int:
    limit = _limit(parsed)
    home, project, index = pick.here(parsed, settle="all" if parsed.flag("all") else "project")
    chosen = any(parsed.text(name) is not None for name in _CHOOSING)
    try:
        if chosen:
            return _print_chosen(parsed, index, project.id, limit)
        headings = _headings(index)
        records = index.of_store() if parsed.flag("all") else index.of_project(project.id)
        records = [record for record in records if parsed.flag("archived") or not record["hidden"]]
    finally:
        index.close()
    chosen_format = parsed.text("output") or parsed.text("query")
    if not records and not chosen_format and is_tty(sys.stdout):
        sys.stderr.write("no runs yet; start one: holdfast submit -c local train.py\n")
        return 0
    _emit_records(parsed, records, headings)
    if not chosen_format:
        from holdfast.cli.commands.power import tell_idle

        sys.stdout.flush()
        tell_idle(home, project, records)
    return 0


def _limit(parsed: Parsed) -> int | None:
    text = parsed.text("limit")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"--limit {text}: not a whole number", hint="for example --limit 20")
    return int(text)


def _print_chosen(parsed: Parsed, index: Index, project_id: str, limit: int | None) -> int:
    from holdfast.store.index.select import Wish, select

    everywhere, columns, archived = parsed.flag("all"), parsed.text("columns"), parsed.flag("archived")
    selection = Wish(
        None if everywhere else project_id, parsed.text("where"), parsed.text("sort"), limit, columns, archived
    )
    rows, titles = select(index, selection)
    fmt, query = parsed.text("output"), parsed.text("query")
    if not rows and fmt is None and query is None and is_tty(sys.stdout):
        sys.stderr.write("no runs match\n")
    elif titles is None:
        _emit_records(parsed, rows, _headings(index))
    elif fmt == "tsv" and query is None:
        emit([[row[title] for title in titles] for row in rows], fmt=fmt)
    elif query is None and (fmt == "table" or (fmt is None and is_tty(sys.stdout))):
        emit([_with_units(row) for row in rows], **parsed.form(), columns=titles)
    else:
        emit(rows, **parsed.form(), columns=titles)
    return 0


def _with_units(row: Json) -> Json:
    """Other formats have seconds."""
    times = {name: row.get(name) for name in ("age", "duration")}
    return {**row, **{name: human_duration(value) for name, value in times.items() if isinstance(value, (int, float))}}


def _headings(index: Index) -> frozenset[str]:
    """Those of the table for people that name nothing else in this store."""
    if not is_tty(sys.stdout):
        return frozenset()
    from holdfast.store.where.sql import free_headings

    return free_headings(index)


def _emit_records(parsed: Parsed, records: list[Json], headings: frozenset[str]) -> None:
    """At a terminal the table for people; with a format, a query or as ``az ml ...`` the original's columns.

    A table shows missing outputs in its status column; other formats have ``outputs`` for that.
    """
    fmt, query = parsed.text("output"), parsed.text("query")
    if fmt is None and query is None and is_tty(sys.stdout) and not parsed.compatible:
        _print_table(parsed, records, headings)
        return
    if query is None and (fmt == "table" or (fmt is None and is_tty(sys.stdout))):
        records = [_in_one_line(record) for record in records]
    columns = _columns(parsed, records)
    emit(records, **parsed.form(), columns=columns)


def _in_one_line(record: Json) -> Json:
    """Of a list of values the last one; of a table or picture what it is."""
    cells = {name: value if name in history_record.FIXED else _cell(value) for name, value in record.items()}
    return {**cells, "status": history_record.state_words(record)}


def _cell(value: object) -> object:
    if isinstance(value, list):
        return value[-1] if value else None
    if isinstance(value, dict) and value.get("type") == "table":
        rows = value.get("rows")
        return f"table of {len(rows)} rows" if isinstance(rows, list) else "table"
    if isinstance(value, dict) and value.get("type") == "image":
        return f"image {value.get('width')}x{value.get('height')}"
    return value


def _print_table(parsed: Parsed, records: list[Json], headings: frozenset[str]) -> None:
    import time

    from holdfast.present.run_table import table

    first = [name.strip().lstrip("+-") for name in (parsed.text("sort") or "").split(",")]
    text = table(records, sys.stdout, time.time(), all_projects=parsed.flag("all"), first=first, headings=headings)
    sys.stdout.write(text)


def _columns(parsed: Parsed, records: list[Json]) -> list[str] | None:
    """The fixed columns of the original and every scalar metric, in ASCII order as it printed them; CSV has all."""
    if parsed.text("output") == "csv":
        return None
    logged = {key for record in records for key, value in record.items() if isinstance(value, (int, float, str))}
    return sorted(_COLUMNS | (logged - history_record.FIXED))
