"""The command that adds an extra, by the way in which Holdfast was installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.present.install_hint import install_hint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("file", "command"),
    [("uv-receipt.toml", "uv tool install --force"), ("pipx_metadata.json", "pipx install --force")],
)
def test_tool_environments_name_the_program_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, command: str
) -> None:
    (tmp_path / file).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert install_hint("png") == f"{command} 'holdfast[png]'"
