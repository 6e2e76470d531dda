"""Puts the manual, if ``make site`` has built it, into the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuiltManual(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface's own
        if (Path(self.root) / "site" / "index.html").is_file():
            build_data["shared_data"]["site"] = "share/doc/holdfast/site"
