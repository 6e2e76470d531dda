"""A builder killed at fifty points of its work: never a broken environment, and the next one succeeds."""

from __future__ import annotations

import os
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

import managed
from holdfast.runner.store.remove_tree import remove_tree
from lab.server import serve
from managed import environments, is_whole, kill_a_builder, manage, prepared, requirements
from soak.page import write_section

if TYPE_CHECKING:
    from conftest import Desk

KILLS = 50


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["pip", "conda"])
def test_killed_at_fifty_points(desk: Desk, kind: str) -> None:
    """At any moment between the command and its end; every second time with nothing downloaded yet."""
    manage(desk)
    random, cut = Random(50), Counter[bool]()
    with serve(managed.index().path) as server:
        if kind == "pip":
            requirements(desk, server.url, "tinydep", "tinytale")
        else:
            managed.conda_file(desk, managed.channel().file_url, "python", "tinysay")
        assert desk.holdfast("env", "lock").code == 0
        takes = {is_cold: _seconds(desk, is_cold) for is_cold in (True, False)}
        for number in range(KILLS):
            is_cold = number % 2 == 0
            _forget(desk, is_cold)
            kill_a_builder(desk, random.uniform(0, takes[is_cold]))
            is_there = environments(desk) != []
            assert not is_there or is_whole(desk)
            cut[is_cold] += not is_there
            prepared(desk)
            assert is_whole(desk)
    assert sum(cut.values()) >= KILLS / 2, "most kills came when all was done"
    rows = (
        f"| {'empty' if is_cold else 'full'} | {takes[is_cold]:.1f} s | {KILLS // 2} | {cut[is_cold]} | 0 | 0 |\n"
        for is_cold in takes
    )
    write_section(f"Builders of {kind} environments killed", TABLE + "".join(rows))


TABLE = """\
`kill -9` for the command, its runner, the builder and all that it started, at a random moment between the
command's start and the time that it takes without a kill. Then `env verify`, and the same command once more.

| cache | takes | kills | before the environment was there | broken environments | commands that failed afterwards |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


def _seconds(desk: Desk, is_cold: bool) -> float:
    for row in environments(desk):
        remove_tree(os.fsencode(desk.home / "envs" / str(row["key"])))
    _forget(desk, is_cold)
    started = time.monotonic()
    prepared(desk)
    return time.monotonic() - started


def _forget(desk: Desk, is_cold: bool) -> None:
    if is_cold:
        remove_tree(os.fsencode(desk.home / "cache" / "packages"))
