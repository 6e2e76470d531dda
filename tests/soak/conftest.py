"""The soak takes half an hour: it is collected only where it is asked for by name (``make soak``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return None if any(path.is_relative_to(HERE) for path in asked) else True
