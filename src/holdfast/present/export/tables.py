"""Runs as two tables, ``runs`` and ``metrics``, in CSV or Parquet."""

from __future__ import annotations

import json
import os

from holdfast.errors import UsageError
from holdfast.metrics import reader
from holdfast.present import csv_table
from holdfast.present.export import exported_run
from holdfast.present.install_hint import install_hint
from holdfast.store.history_record import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from holdfast.present.export.exported_run import ExportedRun, Written
    from holdfast.store.runs import Run

_FIXED = (
    *("run_id", "run_number", "uid", "name", "status", "exit_code", "script_name", "arguments", "target", "host"),
    *("user", "created_utc", "start_time_utc", "end_time_utc", "duration", "description"),
)
_METRIC_COLUMNS = ("run_id", "name", "step", "time_utc", "value", "text")


def write_csv(chosen: list[Run], folder: str, tell: Callable[[int, int], None]) -> Written:
    folder = exported_run.new_folder(folder)
    rows = []
    with open(os.path.join(folder, "metrics.csv"), "x", encoding="utf-8", newline="") as target:
        target.write(csv_table.line(_METRIC_COLUMNS))
        for done, run in enumerate(map(exported_run.read, chosen)):
            tell(done, len(chosen))
            rows.append(_row(run))
            target.writelines(csv_table.line(point) for point in _points(run))
    with open(os.path.join(folder, "runs.csv"), "x", encoding="utf-8", newline="") as target:
        target.write(csv_table.as_csv(rows, _columns(rows)))
    return exported_run.Written(folder, len(chosen), 0, [])


def write_parquet(chosen: list[Run], folder: str, tell: Callable[[int, int], None]) -> Written:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        what, hint = "writing Parquet needs the optional package pyarrow", install_hint("parquet")
        raise UsageError(what, answer=str(error), hint=hint) from error
    folder = exported_run.new_folder(folder)
    fields = zip(_METRIC_COLUMNS, ("string", "string", "int64", "string", "float64", "string"), strict=True)
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in fields])
    rows = []
    with pyarrow.parquet.ParquetWriter(os.path.join(folder, "metrics.parquet"), schema) as target:
        for done, run in enumerate(map(exported_run.read, chosen)):
            tell(done, len(chosen))
            rows.append(_row(run))
            columns = list(zip(*_points(run), strict=True)) or [()] * len(_METRIC_COLUMNS)
            target.write_table(pyarrow.table(dict(zip(_METRIC_COLUMNS, columns, strict=True)), schema=schema))
    table = {name: _uniform(row.get(name) for row in rows) for name in _columns(rows)}
    pyarrow.parquet.write_table(pyarrow.table(table), os.path.join(folder, "runs.parquet"))
    return exported_run.Written(folder, len(chosen), 0, [])


def _row(run: ExportedRun) -> dict[str, object]:
    """The run in one row: fixed fields, parameters, tags, and the last number or text of each metric."""
    row: dict[str, object] = {name: run.record.get(name) for name in _FIXED}
    row["arguments"] = json.dumps(row["arguments"])
    row.update((f"params.{name}", value) for name, value in run.parameters.items())
    tags = run.record.get("tags")
    row.update((f"tags.{name}", value) for name, value in (tags.items() if isinstance(tags, dict) else ()))
    for series in run.metrics.by_name.values():
        last = reader.json_value(series.values[-1])
        if isinstance(last, (bool, int, float, str)):
            row[f"metrics.{series.name}"] = last
    return row


def _columns(rows: list[dict[str, object]]) -> list[str]:
    """The fixed ones, then parameters, tags and metrics, each in the order of their names."""
    return [*_FIXED, *sorted({name for row in rows for name in row} - set(_FIXED), key=_group)]


def _group(name: str) -> tuple[int, str]:
    return ("params", "tags", "metrics").index(name.partition(".")[0]), name


def _points(run: ExportedRun) -> Iterator[tuple[str, str, int, str | None, float | None, str | None]]:
    """A row for each value: numbers, NaN and infinities included, as ``value``, anything else as ``text`` in JSON."""
    for series in run.metrics.by_name.values():
        for step, moment, value in zip(series.steps, series.times, series.values, strict=True):
            if isinstance(value, (bool, int, float)):
                yield run.run_id, series.name, step, utc(moment), float(value), None
            else:
                text = value if isinstance(value, str) else json.dumps(reader.json_value(value))
                yield run.run_id, series.name, step, utc(moment), None, text


def _uniform(values: Iterable[object]) -> list[Any]:
    """A column of one type: as text, where the runs differ in it."""
    column = list(values)
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {int, float}:
        return [value if value is None or kinds == {int} else float(value) for value in column]  # type: ignore[arg-type]
    if len(kinds) == 1 and kinds <= {bool, str}:
        return column
    return [None if value is None else value if isinstance(value, str) else json.dumps(value) for value in column]
