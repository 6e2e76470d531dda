"""Files: the tree of a project, and one text file to edit, with the checker's findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse

from holdfast import target_lookup
from holdfast.amlconfig.check import check_project
from holdfast.web import known_projects
from holdfast.web.app import address, form, in_thread, json_answer, workbench
from holdfast.web.editing import config_form, project_files

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.amlconfig.types import Finding

_CHECKED = (".compute", ".runconfig", ".yml", ".yaml", ".txt")


async def page(request: Request) -> Response:
    values = await _values(request)
    return workbench(request).page(
        request,
        "files.html",
        above=values["folder"].rpartition("/")[0],
        places={finding.line: finding.severity for finding in values["findings"]},
        is_saved=request.query_params.get("saved") == "1",
        **values,
    )


async def as_json(request: Request) -> Response:
    """The findings as `holdfast check -o json` prints them, beside the names and the text."""
    values = await _values(request)
    shown = {name: values[name]._asdict() for name in ("project", "text") if values[name] is not None}
    rows = {name: [row._asdict() for row in values[name]] for name in ("findings", "fields")}
    return json_answer({**values, **shown, **rows})


async def _values(request: Request) -> dict[str, Any]:
    bench, query = workbench(request), request.query_params
    known = await known_projects.of(bench, request.path_params["project"])
    folder, name = query.get("folder", ""), query.get("file", "")
    rows = await in_thread(project_files.listing, known.root, folder)
    text = await in_thread(project_files.read, known.root, name) if name else None
    findings = await in_thread(_findings, known.root, bench.home.path, name) if name.endswith(_CHECKED) else []
    return {
        "project": known,
        "folder": folder,
        "rows": rows,
        "name": name,
        "text": text,
        "findings": findings,
        "fields": await in_thread(config_form.fields, known.root, name) if name else [],
    }


async def save(request: Request) -> Response:
    bench, fields = workbench(request), await form(request)
    known = await known_projects.of(bench, request.path_params["project"])
    name, folder = fields.get("file", ""), fields.get("folder", "")
    content, digest = fields.get("content", ""), fields.get("digest", "")
    await in_thread(project_files.save, known.root, name, content, digest)
    return RedirectResponse(address(f"/projects/{known.id}/files", folder=folder, file=name, saved="1"), 303)


async def save_form(request: Request) -> Response:
    """Change single keys of a configuration file in its text."""
    bench, fields = workbench(request), await form(request)
    known = await known_projects.of(bench, request.path_params["project"])
    name, folder = fields.get("file", ""), fields.get("folder", "")
    values = {key.removeprefix("key:"): value for key, value in fields.items() if key.startswith("key:")}
    await in_thread(config_form.save, known.root, name, fields.get("digest", ""), values)
    return RedirectResponse(address(f"/projects/{known.id}/files", folder=folder, file=name, saved="1"), 303)


def _findings(root: str, home: str, name: str) -> list[Finding]:
    targets = target_lookup.targets(target_lookup.folders(root, home)[1:])
    return [finding for finding in check_project(root, targets) if finding.file.endswith(name)]
