"""Writes the commands of Holdfast's command table that ``az ml`` has, as JSON, into the extension."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NAME = "azext_holdfast/commands.json"


class CommandsFromWorkTree(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface's own
        source = Path(self.root).parents[1] / "src"
        if not (source / "holdfast" / "cli" / "table").is_dir():
            return  # a source distribution, which has the file
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "commands.json"
        path.write_text(json.dumps(_table(str(source)), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        build_data["force_include"][str(path)] = _NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if hasattr(self, "folder"):
            self.folder.cleanup()


def _table(source: str) -> dict[str, Any]:
    sys.path.insert(0, source)
    try:
        from holdfast.cli.table.azure import azure_table

        return azure_table()
    finally:
        sys.path.remove(source)
