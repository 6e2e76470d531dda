"""``holdfast.targets``: the targets that a project can use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.api.documented_errors import documented_errors
from holdfast.api.option_checks import checked_project
from holdfast.errors import HoldfastError
from holdfast.store.home import location

if TYPE_CHECKING:
    from collections.abc import Sequence


class TargetInfo(NamedTuple):
    """A target by name. ``file`` is its ``.compute`` file, None for ``local`` without one.

    ``problem`` says why the file cannot be used; ``kind`` and ``address`` are empty then.
    """

    name: str
    kind: str
    address: str
    file: str | None
    problem: str = ""


@documented_errors
def targets(project: str | os.PathLike[str] | None = None) -> list[TargetInfo]:
    """The targets of the project in that folder (by default the current one) and of the user, by name."""
    root = projects.find(checked_project(project)).root
    folders = target_lookup.folders(root, location())
    return [_target(folders, name) for name in target_lookup.targets(folders)]


def _target(folders: Sequence[str], name: str) -> TargetInfo:
    try:
        compute = target_lookup.choose(folders, "local", name).compute
        file = target_lookup.find(folders, f"{name}.compute")
    except HoldfastError as error:
        return TargetInfo(name, "", "", None, str(error))
    return TargetInfo(name, compute.kind.name, target_lookup.endpoint(compute)[0], file)
