"""Targets: machines of a project, what their checks say, and their GPUs with holders and queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import target_lookup
from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.machines import checks
from holdfast.engine.machines.gpus import Looker
from holdfast.engine.submit import confirmation
from holdfast.engine.submit.preflight import FAILED
from holdfast.errors import HoldfastError
from holdfast.web import known_projects
from holdfast.web.app import in_thread, json_answer, workbench

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.model import Json
    from holdfast.store.home import Home


async def page(request: Request) -> Response:
    return workbench(request).page(request, "targets.html", targets=await _all(request), result=None)


async def as_json(request: Request) -> Response:
    return json_answer(await _all(request))


async def check(request: Request) -> Response:
    """Connect to a target, which the project must be allowed to use, and show what was result out."""
    bench = workbench(request)
    known = await known_projects.of(bench, request.path_params["project"])
    result = await in_thread(_check, bench.home, known.root, request.path_params["name"])
    return bench.page(request, "targets.html", targets=await _all(request), result=result)


async def _all(request: Request) -> list[Json]:
    bench = workbench(request)
    rows: list[Json] = []
    for known in await known_projects.every(bench):
        if known.root:
            rows += await in_thread(_targets, bench.home, known.root, known.id, known.name)
    return rows


def _targets(home: Home, root: str, project_id: str, project: str) -> list[Json]:
    folders = target_lookup.folders(root, home.path)
    return [
        {"project": project, "project_id": project_id, "name": name, **_described(folders, name)}
        for name in target_lookup.targets(folders)
    ]


def _described(folders: tuple[str, ...], name: str) -> Json:
    try:
        compute = target_lookup.choose(folders, "local", name).compute
    except HoldfastError as error:
        return {"kind": "", "address": "", "problem": str(error)}
    return {"kind": compute.kind.name, "address": target_lookup.endpoint(compute)[0], "problem": ""}


def _check(home: Home, root: str, name: str) -> Json:
    chosen = target_lookup.choose(target_lookup.folders(root, home.path), "local", name)
    missing = confirmation.look(home.path, root, chosen)
    if missing is not None:
        raise confirmation.refusal(home.path, missing)
    ticks = list(checks.examine(home, chosen.compute))
    is_fine = all(tick.state != FAILED for tick in ticks)
    return {"name": name, "ticks": ticks, "machine": _gpus(home, chosen.compute) if is_fine else None}


def _gpus(home: Home, compute: ComputeTarget) -> object:
    channel = connect(home, target_lookup.resolve(compute, home.path), ASKING)
    try:
        return Looker(home).look(channel)
    except HoldfastError:
        return None
    finally:
        channel.close()
