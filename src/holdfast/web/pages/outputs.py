"""Outputs: a file that a run left, shown inert, and its bytes."""

from __future__ import annotations

import csv
import os
import re
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse

from holdfast.engine.runs import outputs
from holdfast.errors import StoreError
from holdfast.runner import json_text
from holdfast.store import history_record, output_manifest
from holdfast.web.app import address, form, in_thread, json_answer, workbench
from holdfast.web.gate import INERT

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json
    from holdfast.store.runs import Run

_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
_IMAGES |= {".svg": "image/svg+xml"}
_FRAMED = {".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8"}
_TABLES = {".csv": ",", ".tsv": "\t"}
_OTHERS = {".pdf": "application/pdf"}
_MOST_TEXT = 200_000
_MOST_ROWS = 200
_MOST_CELLS = 500
_LARGEST_NOTEBOOK = 20_000_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


async def page(request: Request) -> Response:
    bench = workbench(request)
    run, name, path = await _file(request)
    preview = await in_thread(_preview, name, path)
    return bench.page(request, "output.html", run=run, name=name, size=os.path.getsize(path), **preview)


async def as_json(request: Request) -> Response:
    """What the page shows of the file; its bytes are at ``/runs/{uid}/file``."""
    run, name, path = await _file(request)
    preview = await in_thread(_preview, name, path)
    return json_answer({"run": run.uid, "name": name, "size": os.path.getsize(path), **preview})


async def raw(request: Request) -> Response:
    """The bytes of a file: an opaque origin without script, framed or opened by its address."""
    _, name, path = await _file(request)
    kind = {**_IMAGES, **_FRAMED, **_OTHERS}.get(os.path.splitext(name)[1].lower())
    kind = kind or ("text/plain; charset=utf-8" if await in_thread(_is_text, path) else "application/octet-stream")
    is_shown = kind.startswith(("image/", "text/"))
    headers = {"content-security-policy": INERT}
    placing = "inline" if is_shown and request.query_params.get("download") != "1" else "attachment"
    return FileResponse(
        path, media_type=kind, filename=os.path.basename(name), content_disposition_type=placing, headers=headers
    )


async def fetch(request: Request) -> Response:
    """Fetch a file that stayed on the target, as ``history info -a`` does, and show it."""
    bench = workbench(request)
    run = await bench.history.run(request.path_params["uid"])
    name = (await form(request)).get("name", "")
    path = output_manifest.row_path(run, name)
    problems = await in_thread(outputs.bring, bench.home, run, [path])
    if path in problems:
        raise StoreError("this file could not be fetched from the target", where=name, answer=problems[path])
    return RedirectResponse(address(f"/runs/{run.uid}/outputs", name=name), 303)


async def _file(request: Request) -> tuple[Run, str, str]:
    run = await workbench(request).history.run(request.path_params["uid"])
    name = request.query_params.get("name", "")
    path = await in_thread(history_record.artifact_path, run, name) if name else None
    if path is None or not os.path.isfile(path) or os.path.islink(path):
        raise HTTPException(404, "this run has no such file on this machine")
    return run, name, path


def _preview(name: str, path: str) -> dict[str, Any]:
    ending = os.path.splitext(name)[1].lower()
    kind, text, table, cells = "none", "", [], []
    if ending in _IMAGES:
        kind = "image"
    elif ending in _FRAMED:
        kind = "frame"
    elif _is_text(path):
        kind = "text"
        with open(path, encoding="utf-8", errors="replace", newline="") as source:
            text = source.read(_MOST_TEXT)
        if ending in _TABLES:
            kind, table = "table", _rows(text, _TABLES[ending])
        elif ending == ".ipynb" and (cells := _cells(path)):
            return {"kind": "notebook", "text": "", "table": [], "cells": cells, "is_cut": len(cells) == _MOST_CELLS}
    is_cut = os.path.getsize(path) > len(text.encode()) > 0
    return {"kind": kind, "text": text, "table": table, "cells": cells, "is_cut": is_cut}


def _cells(path: str) -> list[Json]:
    """What a notebook's cells say, as text: pictures and pages in their outputs are named, not shown."""
    if os.path.getsize(path) > _LARGEST_NOTEBOOK:
        return []
    try:
        with open(path, encoding="utf-8") as source:
            content = json_text.loads(source.read())
        return [_cell(cell) for cell in content["cells"][:_MOST_CELLS]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # shown as the text that it is


def _cell(cell: Json) -> Json:
    outputs = cell.get("outputs")
    texts = [_output(output) for output in outputs[:50]] if isinstance(outputs, list) else []
    return {"kind": str(cell.get("cell_type")), "source": _joined(cell.get("source")), "outputs": texts}


def _output(output: Json) -> str:
    data = output.get("data")
    kinds = {name: data[name] for name in data} if isinstance(data, dict) else {}
    text = _joined(output.get("text") or kinds.get("text/plain") or output.get("traceback"))
    others = [name for name in kinds if name != "text/plain"]
    return "\n".join(filter(None, (_COLOURS.sub("", text), f"[{', '.join(others)}]" if others else "")))


def _joined(value: object) -> str:
    text = "".join(map(str, value)) if isinstance(value, list) else str(value or "")
    return text[:_MOST_TEXT]


def _rows(text: str, delimiter: str) -> list[list[str]]:
    rows = []
    try:
        for row in csv.reader(text.splitlines(), delimiter=delimiter):
            rows.append([cell[:500] for cell in row[:100]])
            if len(rows) > _MOST_ROWS:
                break
    except csv.Error:
        return rows
    return rows


def _is_text(path: str) -> bool:
    with open(path, "rb") as source:
        data = source.read(8192)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4 and b"\0" not in data
    return b"\0" not in data
