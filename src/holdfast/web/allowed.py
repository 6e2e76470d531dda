"""Targets that pages may connect to: those whose project has been allowed what their files ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import target_lookup
from holdfast.engine.submit import confirmation
from holdfast.web import known_projects
from holdfast.web.app import in_thread

if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.web.app import Workbench


async def allowed(bench: Workbench, project: str, name: str) -> ComputeTarget:
    """A target of a project; an error for one that asks for something that was not confirmed."""
    known = await known_projects.of(bench, project)

    def choose() -> ComputeTarget:
        chosen = target_lookup.choose(target_lookup.folders(known.root, bench.home.path), "local", name)
        missing = confirmation.look(bench.home.path, known.root, chosen)
        if missing is not None:
            raise confirmation.refusal(bench.home.path, missing)
        return chosen.compute

    return await in_thread(choose)
