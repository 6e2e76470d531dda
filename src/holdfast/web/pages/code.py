"""Code: the files of a run's snapshot, one of them with line numbers, and the restore of the project to that state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from holdfast import project as projects
from holdfast.engine.runs import restore
from holdfast.errors import HoldfastError, UsageError
from holdfast.web.app import form, in_thread, json_answer, whole, workbench
from holdfast.web.dialog import PageDialog

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.engine.runs.restore import Restored
    from holdfast.model import Project
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_MOST_FILES = 2000
_MOST_LINES = 20_000
_MOST_DIFF = 2000


async def page(request: Request) -> Response:
    """``file`` shows one file; without it, what restoring would change in the project's folder."""
    values = await _values(request)
    marked = whole(request.query_params.get("line"), 0)
    return workbench(request).page(request, "code.html", marked=marked, done=None, **values)


async def as_json(request: Request) -> Response:
    values = await _values(request)
    return json_answer({**values, "run": values["run"].uid})


async def _values(request: Request) -> dict[str, Any]:
    bench, query = workbench(request), request.query_params
    run = await bench.history.run(request.path_params["uid"])
    name = query.get("file", "")
    lines = await in_thread(restore.text_lines, bench.home, run, name) if name else None
    problem, changes = "", []
    if not name:
        try:
            changes = await in_thread(_changes, bench.home, run)
        except HoldfastError as error:
            problem = str(error)
    return {
        "run": run,
        "names": await in_thread(_names, bench.home, run),
        "name": name,
        "lines": lines[:_MOST_LINES] if lines is not None else None,
        "changes": changes,
        "problem": problem,
    }


async def restored(request: Request) -> Response:
    """Replace the project's folder by the run's code, or by the ``saved`` state from before an earlier restore."""
    bench, fields = workbench(request), await form(request)
    run = await bench.history.run(request.path_params["uid"])
    if fields.get("confirm") != "1":
        raise HTTPException(400, "confirm the restore on the page of the code")
    done = await in_thread(_restore, bench.home, run, fields.get("saved", ""))
    names = await in_thread(_names, bench.home, run)
    empty: dict[str, Any] = {"name": "", "lines": None, "marked": 0, "changes": [], "problem": ""}
    return bench.page(request, "code.html", run=run, names=names, done=done, **empty)


def _names(home: Home, run: Run) -> list[str]:
    return [os.fsdecode(path) for path in sorted(restore.files(home, run))][:_MOST_FILES]


def _changes(home: Home, run: Run) -> list[str]:
    lines = restore.difference(home, run, None, _project(run), PageDialog().agree)
    return [line for line, _ in zip(lines, range(_MOST_DIFF), strict=False)]


def _restore(home: Home, run: Run, saved: str) -> Restored:
    dialog, project = PageDialog(), _project(run)
    if saved:
        return restore.bring_back(home, project, saved, dialog.agree)
    return restore.restore_over(home, run, project, dialog.agree)


def _project(run: Run) -> Project:
    """The project of a run as it is now; an error where its folder is not here."""
    root = str(run.request.get("project_root") or "")
    project = projects.find(root) if os.path.isdir(root) else None
    if project is None or project.id != run.request.get("project_id"):
        from shlex import quote

        hint = f"restore into a new folder: holdfast restore -r {quote(str(run.request.get('run_id')))} --to DIR"
        raise UsageError("the folder of this run's project is not on this machine", where=root, hint=hint)
    return project
