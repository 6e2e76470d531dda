"""Runs: the grid of all runs, its rows by window, and the stream of news."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.responses import RedirectResponse, Response, StreamingResponse

from holdfast.engine.runs import annotate
from holdfast.errors import UsageError
from holdfast.labels import read_tags
from holdfast.metrics.direction import has_best
from holdfast.present import csv_table, terminal
from holdfast.present.run_table import age
from holdfast.store.index.select import Wish
from holdfast.store.where.fields import FIELDS, KEY_SHIFT
from holdfast.web import views
from holdfast.web.allowed import allowed
from holdfast.web.app import address, form, in_thread, json_answer, state_class, whole, workbench

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.model import Json
    from holdfast.store.index.index import Index
    from holdfast.web.app import Workbench

_FIRST_ROWS = 50
_MOST_ROWS = 200
_FIXED = ("run_number", "status", "script_name", "arguments", "target", "duration", "created_utc")
_DEFAULT = 10  # columns
TITLES = {"run_number": "Run", "status": "State", "script_name": "Script", "created_utc": "Started", "name": "Name"}
TITLES |= {"duration": "Duration", "target": "Target", "arguments": "Arguments", "run_id": "Run id"}
_MOST_POINTS = 20_000
_MOST_AXES = 12
_MOST_NAMES = 2000
_MOST_CHOSEN = 1000
_MOST_TOPICS = 200  # of all tabs of a browser
_PREFIXES = {"metric": "metrics.", "param": "params.", "tag": "tags."}
_NUMERIC = frozenset(("run_number", "duration", "exit_code"))


_METRICS = "SELECT id, name FROM names WHERE kind = 'metric' ORDER BY id LIMIT 50"
_NEWEST_VALUE = "SELECT last FROM vals WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"


async def page(request: Request) -> Response:
    """The first rows are in the page itself; a wrong filter shows its error beside the field and no rows."""
    bench, query = workbench(request), request.query_params
    chosen = query.get("columns")
    columns = chosen if chosen else await bench.history.ask(default_columns)
    error: UsageError | None = None
    window: dict[str, Any] = {"total": 0, "rows": []}
    titles = [name.strip() for name in columns.split(",")]
    first = whole(query.get("from"), 0)
    try:
        window = await _window(bench, _wish(request, columns), first, _FIRST_ROWS)
        titles = window["columns"]
    except UsageError as mistake:
        error = mistake
    return bench.page(
        request,
        "runs.html",
        error=error,
        window=window,
        first=first,
        titles=[(name, TITLES.get(name, name), _sorted_by(request, name)) for name in titles],
        columns=columns,
        pinned=min(whole(query.get("pinned"), 1), len(titles)),
        query=query,
        views=views.every(bench.home),
        state=json.dumps({"columns": columns, **{name: query.get(name, "") for name in _STATE}}),
    )


_STATE = ("where", "sort", "project", "archived")


async def points(request: Request) -> Response:
    """Numbers for charts over the grid: the first runs of the view, and column by column the axes that are named."""
    bench, query = workbench(request), request.query_params
    axes = [name for name in query.getlist("axis")[:_MOST_AXES] if name]
    selection = _wish(request, ",".join(map(_quoted, axes)) or "run_number")
    window, cells = await bench.history.cells(selection, _MOST_POINTS)
    columns = [[cell if _is_number(cell) else None for cell in column] for column in cells]
    return json_answer({"total": window.total, "uids": window.uids, "axes": axes, "columns": columns})


async def names(request: Request) -> Response:
    """What can be a column or an axis."""

    def read(index: Index) -> list[str]:
        rows = index.db.execute("SELECT kind, name FROM names ORDER BY kind, id LIMIT ?", (_MOST_NAMES,)).fetchall()
        return [*FIELDS, *(f"{_PREFIXES[kind]}{name}" for kind, name in rows if kind in _PREFIXES)]

    return json_answer(await workbench(request).history.ask(read))


async def as_csv(request: Request) -> Response:
    """The view, or the runs that are named with ``run``, as a CSV file."""
    bench, query = workbench(request), request.query_params
    columns = query.get("columns") or await bench.history.ask(default_columns)
    chosen = query.getlist("run")[:_MOST_CHOSEN]
    window = await bench.history.window(_wish(request, columns), 0, 100_000)
    rows = [row for uid, row in zip(window.uids, window.rows, strict=True) if not chosen or uid in chosen]
    headers = {"content-disposition": 'attachment; filename="runs.csv"'}
    return Response(
        csv_table.as_csv(rows, list(rows[0]) if rows else None), media_type="text/csv; charset=utf-8", headers=headers
    )


async def labels(request: Request) -> Response:
    """Change tags or the archived state of several runs at once."""
    bench, fields = workbench(request), await form(request)
    uids = [uid for uid in fields.get("runs", "").split(",")[:_MOST_CHOSEN] if uid]
    for uid in uids:
        await bench.history.run(uid)

    def change() -> None:
        if fields.get("tags"):
            annotate.add_tags(bench.home, uids, read_tags(tuple(fields["tags"].split())))
        if fields.get("hidden") in ("0", "1"):
            annotate.hide(bench.home, uids, hidden=fields["hidden"] == "1")

    await in_thread(change)
    await bench.history.reread(uids)
    return RedirectResponse(address("/runs", **dict(parse_qsl(fields.get("view", "")))), 303)


async def save_view(request: Request) -> Response:
    """Keep the address of a view under a name; without an address the view of that name is removed."""
    bench, fields = workbench(request), await form(request)
    view = dict(parse_qsl(fields.get("view", "")))
    await in_thread(views.save, bench.home, fields.get("name", ""), address("/runs", **view), "remove" not in fields)
    return RedirectResponse(address("/runs", **view), 303)


async def rows(request: Request) -> Response:
    bench, query = workbench(request), request.query_params
    columns = query.get("columns") or await bench.history.ask(default_columns)
    first, count = whole(query.get("from"), 0), whole(query.get("count"), _FIRST_ROWS, _MOST_ROWS)
    return json_answer(await _window(bench, _wish(request, columns), first, count))


async def as_json(request: Request) -> Response:
    """Rows of ``columns``, or whole records, as the command line prints them; ``from`` and ``limit`` choose some."""
    bench, query = workbench(request), request.query_params
    first, count = whole(query.get("from"), 0), whole(query.get("limit"), 1000, 100_000)
    window = await bench.history.window(_wish(request, query.get("columns")), first, count)
    return json_answer(window.rows)


async def events(request: Request) -> Response:
    bench = workbench(request)
    topics = frozenset(request.query_params.get("topics", "runs").split(",")[:_MOST_TOPICS])
    for topic in topics - bench.live.computes.keys():
        kind, _, target = topic.partition(":")
        if kind == "gpus":
            project, _, name = target.partition(":")
            bench.live.computes[topic] = await allowed(bench, project, name)
    return StreamingResponse(bench.live.stream(topics, bench.is_stopping), media_type="text/event-stream")


def default_columns(index: Index) -> str:
    """Fixed columns, then the metrics that most likely matter, ten in all."""
    result = [row for row in index.db.execute(_METRICS) if _has_numbers(index, row[0])]
    names = sorted((str(row[1]) for row in result), key=lambda name: not has_best(name))
    metrics = [_quoted(f"metrics.{name}") for name in names[: _DEFAULT - len(_FIXED)]]
    others = ["name", "user", "host"][: _DEFAULT - len(_FIXED) - len(metrics)]
    return ",".join((*_FIXED[:2], *_FIXED[2:4], *metrics, *_FIXED[4:], *others))


def _has_numbers(index: Index, number: int) -> bool:
    """Whether a metric's newest value is a number; pictures and tables say nothing in a cell."""
    row = index.db.execute(_NEWEST_VALUE, (number << KEY_SHIFT, (number + 1) << KEY_SHIFT)).fetchone()
    return row is not None and _is_number(row[0])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`" if any(letter in name for letter in ",`\"' -") else name


def _wish(request: Request, columns: str | None) -> Wish:
    query = request.query_params
    return Wish(
        project_id=query.get("project") or None,
        where=query.get("where") or None,
        sort=query.get("sort") or None,
        columns=columns,
        archived=query.get("archived") == "1",
    )


async def _window(bench: Workbench, selection: Wish, first: int, count: int) -> dict[str, Any]:
    window = await bench.history.window(selection, first, count)
    names = list(window.rows[0]) if window.rows else [name.strip("` ") for name in (selection.columns or "").split(",")]
    now = time.time()
    shown: list[object] = [
        {
            "uid": uid,
            "state": state_class(row.get("status")),
            "cells": [cell(name, row[name], now) for name in names],
        }
        for uid, row in zip(window.uids, window.rows, strict=True)
    ]
    numeric = [name in _NUMERIC or name.startswith("metrics.") for name in names]
    return {"total": window.total, "from": first, "columns": names, "numeric": numeric, "rows": shown}


def cell(name: str, value: object, now: float) -> str:
    """A cell as text, as the table of the command line shows it."""
    if value is None:
        return ""
    if name in ("duration", "age") and isinstance(value, (int, float)):
        return terminal.human_duration(value)
    if name == "created_utc":
        return _age(str(value), now)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    return terminal.show(str(value))[:300]


def _age(created: str, now: float) -> str:
    from calendar import timegm

    try:
        return age(now - timegm(time.strptime(created[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return ""


def _sorted_by(request: Request, name: str) -> Json:
    """The address that sorts by this column: ascending, then descending, then not at all."""
    query = dict(request.query_params)
    quoted, now = _quoted(name), query.pop("sort", "")
    query.pop("from", None)
    order = "ascending" if now == quoted else "descending" if now == f"-{quoted}" else "none"
    following = {"none": quoted, "ascending": f"-{quoted}", "descending": ""}[order]
    return {"order": order, "address": address("/runs", **query, sort=following)}
