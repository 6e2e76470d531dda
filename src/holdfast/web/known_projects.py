"""The projects that this user knows: those with runs, the folder of the command, and added folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast import project as projects
from holdfast.errors import HoldfastError, UsageError
from holdfast.store import runs
from holdfast.web import servers

if TYPE_CHECKING:
    from holdfast.store.home import Home
    from holdfast.store.index.index import Index
    from holdfast.web.app import Workbench

_NEWEST = (
    "SELECT experiment_id, count(*), max(run_number) FROM runs WHERE experiment_id IS NOT NULL"
    " GROUP BY experiment_id ORDER BY max(stamp) DESC LIMIT 500"
)
_UID = "SELECT uid, status, created_utc FROM runs WHERE experiment_id = ? AND run_number = ? LIMIT 1"


class Known(NamedTuple):
    """``root`` is empty where the folder is not on this machine, or is another project now."""

    id: str
    name: str
    root: str
    runs: int = 0
    last_uid: str = ""
    last_status: str = ""
    last_utc: str = ""
    files: int = 0  # of the last run's snapshot
    bytes: int = 0


async def every(bench: Workbench) -> list[Known]:
    result = {known.id: known for known in await bench.history.ask(lambda index: _with_runs(bench.home, index))}
    for folder in (bench.folder, *servers.preferences(bench.home).get("folders", "").split("\n")):
        known = _of_folder(folder) if folder else None
        if known is not None and known.id not in result:
            result[known.id] = known
    bench.roots.update((known.id, known.root) for known in result.values() if known.root)
    return list(result.values())


async def of(bench: Workbench, project_id: str) -> Known:
    """A project whose folder is here; an error for any other."""
    root = bench.roots.get(project_id)  # a new project gets its identity when its first run starts
    known = next(
        (known for known in await every(bench) if project_id == known.id or (root and root == known.root)), None
    )
    if known is None:
        raise UsageError("no such project", where=project_id, hint="add its folder on the page Projects")
    if not known.root:
        raise UsageError("the folder of this project is not on this machine", where=known.name)
    return known


def add(home: Home, folder: str) -> Known:
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        raise UsageError("no such folder", where=folder, hint="write its full path")
    known = _of_folder(folder)
    if known is None:
        raise UsageError("this folder cannot be used as a project", where=folder)
    folders = [name for name in servers.preferences(home).get("folders", "").split("\n") if name]
    servers.prefer(home, folders="\n".join(dict.fromkeys([*folders, known.root])))
    return known


def _with_runs(home: Home, index: Index) -> list[Known]:
    rows = index.db.execute(_NEWEST).fetchall()
    result = []
    for project_id, count, number in rows:
        newest = index.db.execute(_UID, (project_id, number)).fetchone()
        uid, status, created = newest or ("", "", "")
        request = runs.read(home, uid).request if uid else {}
        root = str(request.get("project_root") or "")
        is_here = _identity(root) == project_id
        name = str(request.get("project") or project_id)
        files, size = (value if isinstance(value := request.get(key), int) else 0 for key in ("files", "bytes"))
        last = (uid, str(status), str(created or ""), files, size)
        result.append(Known(project_id, name, root if is_here else "", count, *last))
    return result


def _of_folder(folder: str) -> Known | None:
    try:
        project = projects.find(folder)
    except HoldfastError:
        return None
    return Known(project.id, project.name, project.root)


def _identity(root: str) -> str:
    if not root or not os.path.isdir(root):
        return ""
    known = _of_folder(root)
    return known.id if known is not None and known.root == root else ""
