"""One project with a few runs, and servers as ``holdfast ui`` starts them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from conftest import Desk
from web.client import SCRIPT, Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    place = tmp_path_factory.mktemp("web")
    os.chmod(place, 0o755)
    desk = Desk(place)
    desk.script(SCRIPT)
    for rate in ("0.1", "0.2"):
        done = desk.submit("train.py", "--lr", rate)
        assert done.code == 0, done
    return desk


@pytest.fixture(scope="module")
def server(desk: Desk) -> Iterator[Server]:
    started = Server(desk, "--port", "0").sign_in()
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def uid(desk: Desk) -> str:
    return str(desk.record("1")["uid"])
