"""Log: the bytes of a run's log, by window; follow, jump and search."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from holdfast import lifecycle
from holdfast.runner.store import layout
from holdfast.web import log_window, series
from holdfast.web.app import in_thread, json_answer, seconds, whole, workbench
from holdfast.web.gate import INERT

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.store.runs import Run

_COUNT = 65_536  # bytes of a window
_MOST = 1_000_000
_MOST_MATCHES = 500
_LONGEST_SEARCH = 1000


async def page(request: Request) -> Response:
    bench = workbench(request)
    run = await bench.history.run(request.path_params["uid"])
    return bench.page(
        request,
        "log.html",
        run=run,
        attempt=_attempt(request, run),
        is_open=lifecycle.state_of(run.events) not in lifecycle.FINAL,
    )


async def lines(request: Request) -> Response:
    """``at`` (a byte; -1 for the end), ``before`` (a byte), ``line`` (a number) or ``second`` choose the window.

    ``second`` is one of the time axis of the run's curves: the lines that had been printed by then.
    """
    query = request.query_params
    path = await _path(request)
    count = whole(query.get("count"), _COUNT, _MOST)
    if "second" in query:
        run = await workbench(request).history.run(request.path_params["uid"])
        end = await in_thread(series.log_offset, run, seconds(query["second"]) or 0.0)
        if end is None:
            raise HTTPException(404, "when the lines of this log were printed was not recorded")
        result = await in_thread(log_window.before_byte, path, end, count)
    elif "line" in query:
        offset = await in_thread(log_window.byte_of_line, path, whole(query["line"], 1))
        result = await in_thread(log_window.at_byte, path, offset, count)
    elif "before" in query:
        result = await in_thread(log_window.before_byte, path, whole(query["before"], 0), count)
    else:
        result = await in_thread(log_window.at_byte, path, whole(query.get("at"), -1), count)
    return json_answer(result._asdict())


async def text(request: Request) -> Response:
    path = await _path(request)
    headers = {"content-security-policy": INERT, "content-disposition": 'inline; filename="log.txt"'}
    return FileResponse(path, media_type="text/plain; charset=utf-8", headers=headers)


async def search(request: Request) -> Response:
    query = request.query_params
    wanted = query.get("text", "")[:_LONGEST_SEARCH]
    if not wanted:
        raise HTTPException(400, "nothing to search for")
    path = await _path(request)
    result, following = await in_thread(log_window.search, path, wanted, whole(query.get("from"), 0), _MOST_MATCHES)
    return json_answer({"matches": result, "next": following})


async def _path(request: Request) -> str:
    run = await workbench(request).history.run(request.path_params["uid"])
    path = layout.log(layout.attempt(run.path, _attempt(request, run)))
    if not os.path.isfile(path):
        raise HTTPException(404, "the script has printed nothing, or its log is not on this machine yet")
    return path


def _attempt(request: Request, run: Run) -> int:
    return max(1, whole(request.query_params.get("attempt"), run.attempt_number, run.attempt_number))
