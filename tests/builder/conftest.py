"""What every test of the builder may ask for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from builder.asking import Builder
from lab.channel import build_channel, build_tampered_channel
from lab.index import build_index
from lab.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.channel import Channel
    from lab.index import Index
    from lab.server import Server


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all processes of one test run, each of which has its own folder in that of the run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "lab-for-builder"


@pytest.fixture(scope="session")
def channel(shelf: Path) -> Channel:
    return build_channel(shelf)


@pytest.fixture(scope="session")
def tampered(shelf: Path) -> Channel:
    return build_tampered_channel(shelf)


@pytest.fixture(scope="session")
def index(shelf: Path) -> Index:
    return build_index(shelf)


@pytest.fixture
def served(index: Index) -> Iterator[Server]:
    with serve(index.path) as server:
        yield server


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that do not care whether the python package was unpacked and compiled before."""
    return tmp_path_factory.mktemp("warm")


@pytest.fixture
def builder(tmp_path: Path, warm_cache: Path) -> Builder:
    return Builder(tmp_path, warm_cache)
