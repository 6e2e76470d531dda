"""Compare: any number of runs, differences first, and the same as one file to share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from holdfast.engine.runs.compare import compare
from holdfast.errors import UsageError
from holdfast.present.metric_chart import label
from holdfast.present.pages.compare_page import page as shared_page
from holdfast.present.pages.compare_page import shown
from holdfast.web.app import in_thread, json_answer, workbench
from holdfast.web.gate import INERT

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.engine.runs.compare import Comparison

_MOST = 100


async def page(request: Request) -> Response:
    result = await _compared(request)
    sections = [
        (section, sorted(section.rows, key=lambda row: not row.differs)) for section in result.sections if section.rows
    ]
    return workbench(request).page(
        request,
        "compare.html",
        names=[label(run) for run in result.runs],
        uids=[run.uid for run in result.runs],
        sections=sections,
        code=list(zip([label(run) for run in result.runs[1:]], result.code, strict=False)),
        shown=shown,
        query="&".join(f"run={run.uid}" for run in result.runs),
    )


async def as_json(request: Request) -> Response:
    return json_answer((await _compared(request)).to_json())


async def share(request: Request) -> Response:
    """One HTML file that works offline, as a download."""
    result = await _compared(request)
    data = await in_thread(lambda: shared_page(result, show_all=False))
    headers = {"content-disposition": 'attachment; filename="compare.html"', "content-security-policy": INERT}
    return Response(data, media_type="text/html; charset=utf-8", headers=headers)


async def _compared(request: Request) -> Comparison:
    bench = workbench(request)
    uids = list(dict.fromkeys(request.query_params.getlist("run")))
    if not 2 <= len(uids) <= _MOST:
        raise UsageError(f"choose 2 to {_MOST} runs to compare", hint="select them on the page Runs")
    chosen = [await bench.history.run(uid) for uid in uids]
    return await in_thread(compare, bench.home, chosen)
