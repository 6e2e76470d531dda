"""Ships Holdfast's track.py as the module ``holdfast``, and the modules that it needs beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TrackFromWorkTree(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface's own
        folder = Path(self.root).parents[1] / "src" / "holdfast" / "script_api"
        modules = {
            "track.py": "holdfast.py",
            "values.py": "_holdfast_values.py",
            "client_names.py": "_holdfast_client_names.py",
        }
        for name, module in modules.items():
            if (folder / name).is_file():
                build_data["force_include"][str(folder / name)] = module
