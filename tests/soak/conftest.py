"""The soak takes half an hour: it is collected only where it is asked for by name (``make soak``)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import seeds

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return None if any(path.is_relative_to(HERE) for path in asked) else True


@pytest.fixture(autouse=True)
def _draw_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(seeds.VARIABLE, os.environ.get(seeds.VARIABLE) or "random")
