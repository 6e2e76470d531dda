"""A builder killed at fifty points of its work: never a broken environment, and the next one succeeds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

import managed
from lab.server import serve
from managed import environments, is_whole, kill_a_builder, lend_packages, manage, prepared, requirements

if TYPE_CHECKING:
    from conftest import Desk

KILLS = 50


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["pip", "conda"])
def test_killed_at_fifty_points(desk: Desk, kind: str) -> None:
    manage(desk)
    lend_packages(desk)
    with serve(managed.index().path) as server:
        if kind == "pip":
            requirements(desk, server.url, "tinydep", "tinytale")
        else:
            managed.conda_file(desk, managed.channel().file_url, "python", "tinysay")
        assert desk.holdfast("env", "lock").code == 0
        random = Random(50)
        for _ in range(KILLS):
            kill_a_builder(desk, random.uniform(0, 2 if kind == "pip" else 8))
            assert environments(desk) == [] or is_whole(desk)
            prepared(desk)
            assert is_whole(desk)
