"""Files: the tree of a project, and one text file to edit, with the checker's findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse

from holdfast import target_lookup
from holdfast.amlconfig.check import check_project
from holdfast.web import config_form, known_projects, project_files
from holdfast.web.app import address, form, in_thread, workbench

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.amlconfig.types import Finding

_CHECKED = (".compute", ".runconfig", ".yml", ".yaml", ".txt")


async def page(request: Request) -> Response:
    bench, query = workbench(request), request.query_params
    known = await known_projects.of(bench, request.path_params["project"])
    folder, name = query.get("folder", ""), query.get("file", "")
    rows = await in_thread(project_files.listing, known.root, folder)
    text = await in_thread(project_files.read, known.root, name) if name else None
    findings = await in_thread(_findings, known.root, bench.home.path, name) if name.endswith(_CHECKED) else []
    return bench.page(
        request,
        "files.html",
        project=known,
        folder=folder,
        above=folder.rpartition("/")[0],
        rows=rows,
        name=name,
        text=text,
        findings=findings,
        places={finding.line: finding.severity for finding in findings},
        fields=await in_thread(config_form.fields, known.root, name) if name else [],
        is_saved=query.get("saved") == "1",
    )


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
