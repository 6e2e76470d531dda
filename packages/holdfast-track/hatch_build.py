"""Ships Holdfast's track.py as the module ``holdfast``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TrackFromWorkTree(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface's own
        source = Path(self.root).parents[1] / "src" / "holdfast" / "track.py"
        if source.is_file():
            build_data["force_include"][str(source)] = "holdfast.py"
