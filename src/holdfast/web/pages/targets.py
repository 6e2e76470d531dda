"""Targets: machines of all projects, what their checks say, their GPUs live; attach and detach."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, StreamingResponse

from holdfast import kinds, target_lookup
from holdfast.amlconfig.types import ComputeTarget, split_address
from holdfast.engine.machines import attach as engine
from holdfast.engine.machines import checks, target_files
from holdfast.errors import HoldfastError, HostKeyError, UsageError
from holdfast.hosts import openssh
from holdfast.runner import untrusted
from holdfast.store import trust_file
from holdfast.web import command_lines, known_projects
from holdfast.web.allowed import allowed
from holdfast.web.app import address, form, in_thread, json_answer, workbench

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.web.known_projects import Known

_KEPT = ("project", "kind", "address", "name", "port")  # of the form; a password is in no page


async def page(request: Request) -> Response:
    bench, query = workbench(request), request.query_params
    projects = [known for known in await known_projects.every(bench) if known.root]
    return bench.page(
        request,
        "targets.html",
        targets=await _all(request),
        projects=projects,
        kinds=_kinds(),
        query=query,
        offered=None,
        error=None,
        tested=f"{query.get('project', '')}/{query.get('test', '')}",
    )


async def as_json(request: Request) -> Response:
    return json_answer(await _all(request))


async def check(request: Request) -> Response:
    """The steps of a test as lines of JSON, each when it is known."""
    bench, name = workbench(request), request.path_params["name"]
    compute = await allowed(bench, request.path_params["project"], name)
    return StreamingResponse(_ticks(bench.home, compute), media_type="application/x-ndjson")


async def prepare(request: Request) -> Response:
    """Build the project's environment on a target: what ``holdfast prepare`` prints, as lines of JSON."""
    bench, name = workbench(request), request.path_params["name"]
    known = await known_projects.of(bench, request.path_params["project"])
    await allowed(bench, known.id, name)
    lines = command_lines.ticks(bench.home, known.root, "prepare", "--project", known.root, "-c", name)
    return StreamingResponse(lines, media_type="application/x-ndjson")


async def attach(request: Request) -> Response:
    """The first form asks for the host key; the second, with the key confirmed, logs in and writes the files."""
    bench, fields = workbench(request), await form(request)
    known = await known_projects.of(bench, fields.get("project", ""))
    kept = {name: fields.get(name, "") for name in _KEPT}
    offered: Json | None = None
    error: HoldfastError | None = None
    try:
        compute = _understood(fields)
        if not fields.get("key"):
            offered = await in_thread(_offered, bench.home, compute)
        else:
            await in_thread(_attach, bench.home, known.root, compute, fields)
            path = address("/targets", project=known.id, test=compute.name)
            return RedirectResponse(path, 303)
    except HoldfastError as problem:
        error = problem
    projects = [project for project in await known_projects.every(bench) if project.root]
    values = {"targets": await _all(request), "projects": projects, "kinds": _kinds(), "tested": "/"}
    status = 200 if error is None else 400
    return bench.page(request, "targets.html", status, query=kept, offered=offered, error=error, **values)


async def detach(request: Request) -> Response:
    bench = workbench(request)
    known = await known_projects.of(bench, request.path_params["project"])
    await in_thread(target_files.remove, bench.home.path, known.root, request.path_params["name"])
    return RedirectResponse("/targets", 303)


async def _all(request: Request) -> list[Json]:
    bench = workbench(request)
    rows: list[Json] = []
    for known in await known_projects.every(bench):
        if known.root:
            rows += await in_thread(of_project, bench.home, known)
    return rows


def of_project(home: Home, known: Known) -> list[Json]:
    folders = target_lookup.folders(known.root, home.path)
    rows: list[Json] = []
    for name in target_lookup.targets(folders):
        row = {"project": known.name, "project_id": known.id, "name": name, **_described(folders, name)}
        rows.append({**row, "is_silent": os.path.exists(home.silent(name))})
    return rows


def _described(folders: tuple[str, ...], name: str) -> Json:
    has_file = target_lookup.find(folders, f"{name}.compute") is not None
    try:
        compute = target_lookup.choose(folders, "local", name).compute
    except HoldfastError as error:
        return {"kind": "", "address": "", "problem": str(error), "has_file": has_file}
    reached = target_lookup.endpoint(compute)[0]
    return {"kind": compute.kind.name, "address": reached, "problem": "", "has_file": has_file}


def _ticks(home: Home, compute: ComputeTarget) -> Iterator[str]:
    try:
        for tick in checks.examine(home, compute):
            yield json.dumps(tick._asdict()) + "\n"
    except HoldfastError as error:
        yield json.dumps({"name": "", "state": "failed", "found": str(error), "fix": error.hint}) + "\n"


def _kinds() -> list[str]:
    return [name for name in kinds.attachable() if kinds.of(name).over_ssh]


def _understood(fields: Mapping[str, str]) -> ComputeTarget:
    user, _, host = fields.get("address", "").strip().rpartition("@")
    port = untrusted.whole_number(fields["port"]) if fields.get("port") else None
    if not host or (fields.get("port") and not (port and 0 < port < 65536)):
        raise UsageError("the address cannot be used", where=fields.get("address", ""), hint="ada@gpu1.example.org")
    host, port = split_address(host, port)
    name = fields.get("name", "").strip() or host.split(".")[0]
    if name != os.path.basename(name) or name.startswith((".", "-")) or not name.isprintable() or name == "local":
        raise UsageError(f"{name!r} is not a valid target name", hint="use letters and digits")
    if fields.get("kind") not in _kinds():
        raise UsageError(f"{fields.get('kind')!r} is not a type of target", hint=", ".join(_kinds()))
    return ComputeTarget(name=name, type=fields["kind"], address=host, username=user or None, port=port)


def _offered(home: Home, compute: ComputeTarget) -> Json:
    """The key that the machine shows, and whether the user's own known hosts have it. Nothing is sent."""
    login = target_lookup.login(compute, home.path)
    key = engine.offered_key(login)
    return {"key": key, "shown": openssh.fingerprint(key), "is_known": engine.is_known(login, key)}


def _attach(home: Home, root: str, compute: ComputeTarget, fields: Mapping[str, str]) -> None:
    """A password is used for one login, which installs a key for this target."""
    trust_file.begin(home)
    login = target_lookup.login(compute, home.path)
    key = engine.offered_key(login)
    if key != fields["key"]:
        answer = openssh.fingerprint(key)
        raise HostKeyError("the host key has changed since it was shown; nothing was sent", answer=answer)
    folder = target_lookup.folders(root, home.path)[0]
    compute = target_files.with_image(compute, target_files.earlier(home, folder, compute.name))
    compute = compute._replace(host_key=key)
    secret = fields.get("password") or None
    login = target_lookup.login(compute, home.path)
    _, entry = engine.enter(home, login, compute, secret, own_key=secret is not None)
    target_files.write(folder, compute, entry)
    target_files.confirm(home, folder, compute.name)
