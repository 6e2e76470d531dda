"""From ``-r NAME`` to a run, looked up fresh."""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.cli.terminal import show
from holdfast.engine import reconcile
from holdfast.store import runs
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Project
    from holdfast.store.home import Home
    from holdfast.store.index import Index
    from holdfast.store.runs import Run


def here(parsed: Parsed) -> tuple[Home, Project, Index]:
    """The store, the project one is in, and the index with every open run looked up."""
    home = open_home()
    return home, projects.find(parsed.text("project") or os.getcwd()), reconcile.open_index(home, _tell)


def run(parsed: Parsed) -> tuple[Home, Run]:
    home, project, index = here(parsed)
    try:
        return home, runs.read(home, index.find(project.id, parsed.text("run") or "last"))
    finally:
        index.close()


def runs_named(parsed: Parsed) -> tuple[Home, list[Run]]:
    """The runs of an option that repeats; the last one where none is named."""
    home, project, index = here(parsed)
    try:
        uids = [index.find(project.id, name) for name in parsed.texts("runs") or ("last",)]
    finally:
        index.close()
    return home, [runs.read(home, uid) for uid in dict.fromkeys(uids)]


def _tell(words: str) -> None:
    sys.stderr.write(f"WARNING: {show(words)}\n")
