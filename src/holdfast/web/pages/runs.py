"""Runs: the grid of all runs, its rows by window, and the stream of news."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from holdfast.errors import UsageError
from holdfast.metrics.direction import has_best
from holdfast.present import terminal
from holdfast.present.run_table import age
from holdfast.store.index.select import Wish
from holdfast.web.app import address, json_answer, state_class, whole, workbench

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json
    from holdfast.store.index.index import Index
    from holdfast.web.app import Workbench

_FIRST_ROWS = 50
_MOST_ROWS = 200
_FIXED = ("run_number", "status", "script_name", "arguments", "target", "duration", "created_utc")
_DEFAULT = 10  # columns
TITLES = {"run_number": "Run", "status": "State", "script_name": "Script", "created_utc": "Started", "name": "Name"}
TITLES |= {"duration": "Duration", "target": "Target", "arguments": "Arguments", "run_id": "Run id"}
_NUMERIC = frozenset(("run_number", "duration", "exit_code"))


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
        query=query,
        state=json.dumps({"columns": columns, **{name: query.get(name, "") for name in _STATE}}),
    )


_STATE = ("where", "sort", "project", "archived")


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
    topics = frozenset(request.query_params.get("topics", "runs").split(",")[:20])
    return StreamingResponse(bench.live.stream(topics, bench.is_stopping), media_type="text/event-stream")


def default_columns(index: Index) -> str:
    """Fixed columns, then the metrics that most likely matter, ten in all."""
    result = index.db.execute("SELECT name FROM names WHERE kind = 'metric' ORDER BY id LIMIT 200").fetchall()
    names = sorted((str(row[0]) for row in result), key=lambda name: not has_best(name))
    metrics = [_quoted(f"metrics.{name}") for name in names[: _DEFAULT - len(_FIXED)]]
    others = ["name", "user", "host"][: _DEFAULT - len(_FIXED) - len(metrics)]
    return ",".join((*_FIXED[:2], *_FIXED[2:4], *metrics, *_FIXED[4:], *others))


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
