"""The Run dialog: a form, the plan that a submit would follow, and the submit itself."""

from __future__ import annotations

import os
import secrets
import shlex
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

from holdfast import target_lookup
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.machines.gpus import Looker
from holdfast.engine.runs import restore
from holdfast.engine.submit.job import Asked
from holdfast.engine.submit.prepare import Order, prepare, reach
from holdfast.engine.submit.session import Session
from holdfast.engine.submit.submit import plan_only
from holdfast.errors import HoldfastError, UsageError
from holdfast.ledger import Stopwatch, now_ns
from holdfast.store import runs
from holdfast.web import known_projects
from holdfast.web.app import form, in_thread, json_answer, workbench
from holdfast.web.dialog import PageDialog
from holdfast.web.pages.projects import configurations, scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.web.known_projects import Known

_MOST_DIFF = 400
_MOST_TICKETS = 200
_tickets: OrderedDict[str, str] = OrderedDict()  # what a form has started, so that it starts one run
_one_at_a_time = Lock()


async def page(request: Request) -> Response:
    """The form; with a script chosen, the plan beside it. Nothing is written and no target is asked."""
    bench, query = workbench(request), request.query_params
    known = await known_projects.of(bench, request.path_params["project"])
    folders = target_lookup.folders(known.root, bench.home.path)
    plan, error = None, None
    if query.get("script"):
        try:
            plan = await _shown_plan(request, known)
        except HoldfastError as problem:
            error = problem
    return bench.page(
        request,
        "submit.html",
        project=known,
        query=query,
        scripts=await in_thread(scripts, known.root),
        configurations=await in_thread(configurations, folders),
        plan=plan,
        error=error,
        ticket=secrets.token_urlsafe(12),
    )


async def as_json(request: Request) -> Response:
    """The plan as `submit --dry-run -o json` prints it, and beside it what differs from this script's last run."""
    known = await known_projects.of(workbench(request), request.path_params["project"])
    shown = await _shown_plan(request, known)
    plan = {**shown.pop("plan"), **{name: shown.pop(name) for name in ("files", "bytes")}}
    return json_answer({**plan, "since_last_run": shown})


async def _shown_plan(request: Request, known: Known) -> dict[str, Any]:
    fields = dict(request.query_params)
    last = await _last_run(request, fields.get("script", ""))
    return await in_thread(_plan, workbench(request).home, known, fields, last)


async def start(request: Request) -> Response:
    bench, fields = workbench(request), await form(request)
    known = await known_projects.of(bench, request.path_params["project"])
    uid = await in_thread(_start_once, bench.home, known, fields)
    return RedirectResponse(f"/runs/{uid}", 303)


async def preflight(request: Request) -> Response:
    """What the target says to this plan: the steps of `submit --preflight`, its GPUs and who holds them."""
    bench, fields = workbench(request), await form(request)
    known = await known_projects.of(bench, request.path_params["project"])
    last = await _last_run(request, fields.get("script", ""))
    return json_answer(await in_thread(_preflight, bench.home, known, fields, last))


async def _last_run(request: Request, script: str) -> str:
    """The uid of this script's last run in the project."""
    project_id = request.path_params["project"]
    query = "SELECT uid FROM runs WHERE experiment_id = ? AND script_name = ? ORDER BY run_number DESC LIMIT 1"
    row = await workbench(request).history.ask(lambda index: index.db.execute(query, (project_id, script)).fetchone())
    return str(row[0]) if row else ""


def _order(known: Known, fields: Mapping[str, str]) -> Order:
    try:
        arguments = shlex.split(fields.get("arguments", ""))
    except ValueError as error:
        raise UsageError("the arguments cannot be split", answer=str(error), hint="close every quote") from error
    variables = tuple(line for line in fields.get("env", "").split("\n") if line.strip())
    inputs = Asked(
        words=(fields.get("script", ""), *arguments),
        folder=known.root,
        env=tuple(line.strip() for line in variables),
        gpus=fields.get("gpus") or None,
        name=fields.get("name") or None,
    )
    return Order(inputs, fields.get("config") or None)


def _plan(home: Home, known: Known, fields: Mapping[str, str], last: str) -> dict[str, Any]:
    dialog = PageDialog()
    result = prepare(_order(known, fields), dialog, os.environ)
    plan, taken = plan_only(home, result.project, result.job, result.target, dialog.agree)
    shown: dict[str, Any] = {
        "plan": plan.to_json(),
        "files": taken.files,
        "bytes": taken.bytes,
        "new_bytes": taken.new_bytes,
    }
    shown["notes"] = [*dialog.notes, *taken.warnings]
    shown["left_out"] = len(taken.left_out)
    if last:
        before = runs.read(home, last)
        shown["last"] = {"uid": last, "number": before.request.get("run_number")}
        shown["arguments"] = [str(word) for word in before.request.get("arguments") or ()]  # type: ignore[attr-defined]
        shown["same_code"] = before.request.get("tree") == taken.tree
        if not shown["same_code"]:
            try:
                lines = list(restore.difference(home, before, None, result.project, dialog.agree))
            except HoldfastError as error:
                lines = [str(error)]
            shown["diff"] = lines[:_MOST_DIFF]
    return shown


def _preflight(home: Home, known: Known, fields: Mapping[str, str], last: str) -> Json:
    dialog, stopwatch = PageDialog(), Stopwatch(now_ns())
    result = prepare(_order(known, fields), dialog, os.environ)
    line = reach(home, result, lambda: Line(home, result.target, dialog.lost, dialog.back), dialog)
    try:
        machine = Looker(home).look(line.channel).as_json()
        session = Session(home, result, line, stopwatch, dialog, lambda _identity: None)
        ticks = [tick._asdict() for tick in session.preflight()]
    finally:
        line.close()
    plan = runs.read_plan(runs.read(home, last)) if last else None
    before = (plan or {}).get("environment")
    key = before.get("key") if isinstance(before, dict) else None
    return {"ticks": ticks, "machine": machine, "last_environment": key, "notes": dialog.notes}


def _start_once(home: Home, known: Known, fields: Mapping[str, str]) -> str:
    ticket = fields.get("ticket", "")
    if not ticket:
        raise UsageError("the form is incomplete", hint="open the Run dialog again")
    with _one_at_a_time:
        if ticket not in _tickets:
            _tickets[ticket] = _start(home, _order(known, fields))
            while len(_tickets) > _MOST_TICKETS:
                _tickets.popitem(last=False)
        return _tickets[ticket]


def _start(home: Home, order: Order) -> str:
    dialog, stopwatch = PageDialog(), Stopwatch(now_ns())
    result = prepare(order, dialog, os.environ)
    stopwatch.lap("begin")
    line = reach(home, result, lambda: Line(home, result.target, dialog.lost, dialog.back), dialog)
    try:
        stopwatch.lap("connect")
        stopwatch.waited = lambda: line.waited_ns
        plan, _taken = Session(home, result, line, stopwatch, dialog, lambda _identity: None).run()
    finally:
        line.close()
    return plan.uid
