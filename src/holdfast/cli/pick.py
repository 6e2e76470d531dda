"""Finds the run that ``-r NAME`` means, with its current state."""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.engine.runs.open_index import open_index, settle_in
from holdfast.errors import UsageError
from holdfast.present.terminal import show
from holdfast.store import runs
from holdfast.store.home import open_home
from holdfast.store.index.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parse import Parsed
    from holdfast.model import Project
    from holdfast.store.home import Home
    from holdfast.store.runs import Run


def here(parsed: Parsed, *, settle: str = "", create: bool = False) -> tuple[Home, Project, Index]:
    """The store, the project one is in, and the index. ``settle``: which open runs are looked up on their targets.

    ``project`` and ``all`` name them; by default none are, and no target is asked. A store is
    made only with ``create``.
    """
    home, project = open_home(create=create), projects.find(parsed.text("project") or os.getcwd())
    index = open_index(home, _tell, project.id if settle == "project" else None) if settle else Index(home)
    if index.locked_by:
        _tell(f"the index is not used: {index.locked_by} holds its lock; runs are read from their folders")
    return home, project, index


def run(parsed: Parsed) -> tuple[Home, Run]:
    home, chosen = _looked_up(parsed, (parsed.text("run") or "last",))
    return home, chosen[0]


def run_as_last_seen(parsed: Parsed) -> tuple[Home, Run]:
    """No target is asked."""
    home, project, index = here(parsed)
    try:
        return home, runs.read(home, index.find(project.id, parsed.text("run") or "last"))
    finally:
        index.close()


def runs_named(parsed: Parsed) -> tuple[Home, list[Run]]:
    """The runs of an option that repeats; the last one where none is named."""
    return _looked_up(parsed, parsed.texts("runs") or ("last",))


def _looked_up(parsed: Parsed, names: Sequence[str]) -> tuple[Home, list[Run]]:
    """Only the targets of these runs are asked."""
    home, project, index = here(parsed)
    try:
        uids = list(dict.fromkeys(index.find(project.id, name) for name in names))
        settle(home, index, uids)
    finally:
        index.close()
    return home, [runs.read(home, uid) for uid in uids]


def project_of(parsed: Parsed, run: Run, hint: str) -> Project:
    """The project one is in, if the run belongs to it: files of a run are never written into another project."""
    project = projects.find(parsed.text("project") or os.getcwd())
    if str(run.request.get("project_id")) == project.id:
        return project
    where, name = str(run.request.get("run_id")), str(run.request.get("project"))
    raise UsageError("this run belongs to another project", where=where, answer=name, hint=hint)


def settle(home: Home, index: Index, uids: list[str]) -> None:
    """Look these runs up on their targets where they are open."""
    settle_in(home, index, uids, _tell)


def _tell(message: str) -> None:
    sys.stderr.write(f"WARNING: {show(message)}\n")
