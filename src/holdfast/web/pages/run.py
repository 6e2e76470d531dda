"""Run: everything about one run, its curves and GPU lanes, and what can be done with it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse

from holdfast import lifecycle
from holdfast.engine.runs import annotate, gpu_diagnosis, reconcile, stop
from holdfast.labels import read_tags
from holdfast.metrics import reader
from holdfast.passport import signing
from holdfast.passport.make import make as make_passport
from holdfast.present import gpu_receipt, spark_card
from holdfast.runner.store import layout
from holdfast.store import history_record, output_manifest, package_list, runs
from holdfast.web import command_lines, ledger_strip, pictures, series
from holdfast.web.app import address, form, in_thread, json_answer, seconds, whole, workbench
from holdfast.web.gate import INERT

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_FACTS = (
    *("reason", "start_time_utc", "end_time_utc", "exit_code", "host", "program", "user", "run_configuration"),
    *("parent_run_id", "description", "run_id"),
)
_MOST_METRICS = 200
_TAIL = 4096


async def page(request: Request) -> Response:
    bench = workbench(request)
    run = await bench.history.run(request.path_params["uid"])
    values = await in_thread(_card, bench.home, run)
    return bench.page(request, "run.html", run=run, **values)


async def as_json(request: Request) -> Response:
    run = await workbench(request).history.run(request.path_params["uid"])
    return json_answer(await in_thread(_record, run))


async def curves(request: Request) -> Response:
    query = request.query_params
    run = await workbench(request).history.run(request.path_params["uid"])
    start, end = (seconds(query.get(name)) for name in ("start", "end"))
    return json_answer(await in_thread(series.curves, run, query.getlist("name"), start, end))


async def cancel(request: Request) -> Response:
    bench = workbench(request)
    run = await bench.history.run(request.path_params["uid"])
    if lifecycle.state_of(run.events) not in lifecycle.FINAL:
        await in_thread(stop.cancel, bench.home, run.uid, os.environ.get("USER", "the user"))
    return RedirectResponse(f"/runs/{run.uid}", 303)


async def reproduce(request: Request) -> Response:
    """Run it again as it was and compare the metrics: what ``holdfast reproduce`` prints, as lines of JSON."""
    bench = workbench(request)
    run = await bench.history.run(request.path_params["uid"])
    lines = command_lines.ticks(bench.home, bench.folder, "reproduce", "-r", run.uid, "-o", "table")
    return StreamingResponse(lines, media_type="application/x-ndjson")


async def picture(request: Request) -> Response:
    """A logged picture: the value number ``at`` of the series ``name``."""
    query = request.query_params
    run = await workbench(request).history.run(request.path_params["uid"])

    def read() -> tuple[bytes, str] | None:
        logged = reader.read_attempts(runs.metric_folders(run))
        return pictures.read(run, logged, query.get("name", ""), whole(query.get("at"), 0))

    image = await in_thread(read)
    if image is None:
        raise HTTPException(404, "this run has no such picture")
    return Response(image[0], media_type=image[1], headers={"content-security-policy": INERT})


async def passport(request: Request) -> Response:
    """The signed archive of a run that has ended, as a download."""
    bench = workbench(request)
    run = await bench.history.run(request.path_params["uid"])
    folder = await in_thread(tempfile.mkdtemp, "", "holdfast-passport-")
    path = os.path.join(folder, f"{run.request.get('run_id')}.passport.zip")
    remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    try:
        await in_thread(lambda: make_passport(bench.home, run, signing.key_to_use(None), path))
    except BaseException:
        await remove()
        raise
    return FileResponse(path, media_type="application/zip", filename=os.path.basename(path), background=remove)


async def labels(request: Request) -> Response:
    """Tags as ``name=value`` words, a note, or ``hidden``; what is not in the form stays."""
    bench, fields = workbench(request), await form(request)
    run = await bench.history.run(request.path_params["uid"])

    def change() -> None:
        if fields.get("tags"):
            annotate.add_tags(bench.home, [run.uid], read_tags(tuple(fields["tags"].split())))
        if fields.get("note"):
            annotate.add_note(bench.home, [run.uid], fields["note"])
        if fields.get("hidden") in ("0", "1"):
            annotate.hide(bench.home, [run.uid], hidden=fields["hidden"] == "1")

    await in_thread(change)
    await bench.history.reread([run.uid])
    return RedirectResponse(f"/runs/{run.uid}", 303)


def _record(run: Run) -> Json:
    return {**history_record.record(run), "attempts": history_record.attempts(run)}


def _card(home: Home, run: Run) -> dict[str, Any]:
    record = history_record.record(run)
    metrics, gpu = series.read(run)
    shown = [
        item for item in metrics.by_name.values() if not isinstance(item.values[-1], dict)
    ]  # no pictures, no tables
    digests = [reader.digest(result) for result in shown[:_MOST_METRICS]]
    packages = package_list.read(run) or {}
    recorded = history_record.gpu_receipt(run)
    return {
        "record": record,
        "facts": [(name, record.get(name)) for name in _FACTS if record.get(name) not in (None, "")],
        "attempts": history_record.attempts(run),
        "strip": ledger_strip.strip(record.get("ledger")),
        "pictures": json.dumps(pictures.known([run], [metrics])),
        "digests": digests,
        "more_metrics": max(0, len(shown) - _MOST_METRICS),
        "has_curves": any(digest.points > 1 for digest in digests) or bool(gpu),
        "problems": metrics.problems,
        "receipt": gpu_receipt.read(recorded) if recorded else None,
        "findings": [{**finding._asdict(), **_place(finding.where)} for finding in gpu_diagnosis.of_run(home, run)],
        "packages": sorted(package_list.versions(packages).items()),
        "outputs": _outputs(run),
        "tail": _tail(run),
        "is_open": lifecycle.state_of(run.events) not in lifecycle.FINAL and not run.damage,
        "is_silent": reconcile.is_silent(home, run),
        "again": _again(run),
        "has_code": bool(run.request.get("tree")),
        "data": record.get("data") or [],
        "spark": spark_card.lines(record),
    }


def _again(run: Run) -> str:
    """The address of a Run dialog that is filled in as this run was; empty for runs without a project here."""
    request = run.request
    project, arguments = str(request.get("project_id") or ""), request.get("arguments")
    joined = shlex.join(str(word) for word in arguments) if isinstance(arguments, list) else ""
    script, config = request.get("source") or request.get("script"), request.get("config")
    return address(f"/projects/{project}/run", config=config, script=script, arguments=joined) if project else ""


def _place(where: str) -> Json:
    """The file and line that a finding names, if it names one."""
    file, _, line = where.rpartition(":")
    return {"file": file, "line": line} if file and line.isdigit() else {"file": "", "line": ""}


def _outputs(run: Run) -> list[Json]:
    """Links are never fetched, so they have no hash."""
    rows = []
    for row in output_manifest.listed(run)[:1000]:
        is_here = output_manifest.is_here(run, row)
        can_fetch = not is_here and "sha256" in row
        name = output_manifest.name_of(row)
        rows.append({"name": name, "size": row.get("size"), "here": is_here, "can_fetch": can_fetch})
    return rows


def _tail(run: Run) -> str:
    """The last lines of the log."""
    from holdfast.web.log_window import at_byte

    try:
        result = at_byte(layout.log(run.attempt), -1, _TAIL)
    except OSError:
        return ""
    return "\n".join("".join(text for _, text in pieces) for _, pieces in result.lines[-20:])
