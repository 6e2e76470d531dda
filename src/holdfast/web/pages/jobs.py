"""Jobs: every open run of every project, wherever it was started."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.engine.runs import reconcile
from holdfast.store import history_record, runs
from holdfast.web.app import in_thread, json_answer, workbench

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json
    from holdfast.store.home import Home

_KEYS = ("uid", "run_id", "run_number", "status", "reason", "target", "script_name", "arguments", "created_utc", "user")


async def page(request: Request) -> Response:
    return workbench(request).page(request, "jobs.html", jobs=await _jobs(request), now=time.time())


async def as_json(request: Request) -> Response:
    return json_answer(await _jobs(request))


async def _jobs(request: Request) -> list[Json]:
    bench = workbench(request)
    uids = await bench.history.ask(lambda index: index.open_runs())
    return await in_thread(_read, bench.home, uids)


def _read(home: Home, uids: list[str]) -> list[Json]:
    """As last seen: the stream of news asks the targets. A silent target is named, and changes no state."""
    rows = []
    for uid in uids:
        run = runs.read(home, uid)
        record = history_record.record(run)
        row: Json = {name: record[name] for name in _KEYS}
        row["project"] = run.request.get("project")
        row["unreachable"] = reconcile.is_silent(home, run)
        row["silent_since"] = reconcile.silent_since(home, run)
        row["last_seen_utc"] = history_record.utc(max((_moment(event) for event in run.events), default=0) or None)
        rows.append(row)
    return sorted(rows, key=lambda row: str(row["created_utc"]), reverse=True)


def _moment(event: Json) -> int:
    moment = event.get("wall_ns")
    return moment if isinstance(moment, int) else 0
