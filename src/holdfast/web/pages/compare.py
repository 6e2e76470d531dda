"""Compare: any number of runs, differences first, and the same as one file to share."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import TYPE_CHECKING

from starlette.responses import Response

from holdfast.engine.runs.compare import compare
from holdfast.errors import UsageError
from holdfast.present.metric_chart import label
from holdfast.present.pages.compare_page import page as shared_page
from holdfast.present.pages.compare_page import shown
from holdfast.store import history_record
from holdfast.web import pictures
from holdfast.web.app import in_thread, json_answer, workbench
from holdfast.web.gate import INERT
from holdfast.web.ledger_strip import strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from holdfast.engine.runs.compare import Comparison

_MOST = 100


async def page(request: Request) -> Response:
    result = await _compared(request)
    uids = [run.uid for run in result.runs]
    sections = [
        (section, sorted(section.rows, key=lambda row: not row.differs)) for section in result.sections if section.rows
    ]
    return workbench(request).page(
        request,
        "compare.html",
        names=[label(run) for run in result.runs],
        uids=uids,
        sections=sections,
        code=[(label(run), side_by_side(lines)) for run, lines in zip(result.runs[1:], result.code, strict=False)],
        strips=[strip(history_record.record(run).get("ledger")) for run in result.runs],
        baselines=[address_with_first(uids, uid) for uid in uids],
        pictures=json.dumps(pictures.known(result.runs, result.logged)),
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


def address_with_first(uids: Sequence[str], first: str) -> str:
    """The same comparison with another run as the baseline."""
    return "/compare?" + "&".join(f"run={uid}" for uid in (first, *(uid for uid in uids if uid != first)))


def side_by_side(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """A unified difference as rows of two columns: what kind of row, the line before, the line after."""
    rows: list[tuple[str, str, str]] = []
    before: list[str] = []
    after: list[str] = []

    def flush() -> None:
        rows.extend(("changed", old, new) for old, new in zip_longest(before, after, fillvalue=""))
        before.clear()
        after.clear()

    for line in lines:
        if line.startswith(("---", "+++", "@@", "binary ", "mode ")):
            flush()
            rows.append(("head", line, ""))
        elif line.startswith("-"):
            before.append(line[1:])
        elif line.startswith("+"):
            after.append(line[1:])
        else:
            flush()
            rows.append(("same", line[1:], line[1:]))
    flush()
    return rows


async def _compared(request: Request) -> Comparison:
    bench = workbench(request)
    uids = list(dict.fromkeys(request.query_params.getlist("run")))
    if not 2 <= len(uids) <= _MOST:
        raise UsageError(f"choose 2 to {_MOST} runs to compare", hint="select them on the page Runs")
    chosen = [await bench.history.run(uid) for uid in uids]
    return await in_thread(compare, bench.home, chosen)
