"""Projects and the page of one project: readme, latest runs, targets; new projects from the gallery."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

from holdfast import target_lookup
from holdfast.engine import new_project
from holdfast.store.index.select import Wish
from holdfast.web import known_projects
from holdfast.web.app import form, in_thread, json_answer, workbench
from holdfast.web.editing import project_files
from holdfast.web.pages import assets, targets

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json

_LATEST = 10


async def page(request: Request) -> Response:
    bench = workbench(request)
    gallery = await in_thread(_gallery)
    parent = os.path.dirname(bench.folder)
    return bench.page(
        request, "projects.html", projects=await known_projects.every(bench), gallery=gallery, parent=parent
    )


async def as_json(request: Request) -> Response:
    return json_answer([known._asdict() for known in await known_projects.every(workbench(request))])


async def dashboard(request: Request) -> Response:
    facts = await _facts(request)
    latest = list(zip(facts["uids"], facts["latest"], strict=True))
    return workbench(request).page(request, "dashboard.html", tested="/", **{**facts, "latest": latest})


async def dashboard_as_json(request: Request) -> Response:
    facts = await _facts(request)
    return json_answer({**facts, "project": facts["project"]._asdict()})


async def _facts(request: Request) -> dict[str, Any]:
    bench = workbench(request)
    known = await known_projects.of(bench, request.path_params["project"])
    window = await bench.history.window(Wish(project_id=known.id), 0, _LATEST)
    folders = target_lookup.folders(known.root, bench.home.path)
    return {
        "project": known,
        "total": window.total,
        "uids": window.uids,
        "latest": window.rows,
        "readme": await in_thread(_readme, known.root),
        "scripts": await in_thread(scripts, known.root),
        "configurations": await in_thread(configurations, folders),
        "targets": await in_thread(targets.of_project, bench.home, known),
    }


async def create(request: Request) -> Response:
    bench, fields = workbench(request), await form(request)
    parent, name, template = (fields.get(key, "") for key in ("parent", "name", "template"))
    folder = await in_thread(new_project.create, parent or os.path.dirname(bench.folder), name, template)
    known = await in_thread(known_projects.add, bench.home, folder)
    return RedirectResponse(f"/projects/{known.id}", 303)


async def add(request: Request) -> Response:
    bench, fields = workbench(request), await form(request)
    known = await in_thread(known_projects.add, bench.home, fields.get("folder", "").strip())
    return RedirectResponse(f"/projects/{known.id}", 303)


def scripts(root: str) -> list[str]:
    """Scripts and notebooks in the project's folder."""
    rows = project_files.listing(root, "")
    return [
        str(row["name"]) for row in rows if not row["folder"] and str(row["name"]).endswith((".py", ".ipynb", ".sh"))
    ]


def configurations(folders: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(["local", *target_lookup.configurations(folders), *target_lookup.targets(folders)]))


def _gallery() -> list[Json]:
    result: list[Json] = []
    for name, folder in new_project.templates().items():
        picture = f"sample-{name}.svg" if f"sample-{name}.svg" in assets.NAMES else "sample-blank.svg"
        facts = {"summary": new_project.summary(folder), "readme": _readme(folder), "picture": picture}
        result.append({"name": name, **facts})
    return result


def _readme(root: str) -> str:
    for name in ("README.md", "readme.md", "README.txt", "README"):
        path = os.path.join(root, name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, encoding="utf-8", errors="replace") as source:
                return source.read(20_000)
    return ""
