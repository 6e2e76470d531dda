"""A place of its own for every campaign, swept afterwards, and the number that decides what is drawn."""

from __future__ import annotations

import os
import random
import shutil
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest

import seeds
from faults.campaign import Kill, check
from faults.stage import processes_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Draw(NamedTuple):
    place: Path
    rng: random.Random
    seed: int

    def check(self, done: list[Kill]) -> None:
        check(done, self.seed)
        assert done, "nothing was killed"


@pytest.fixture
def draw(tmp_path: Path) -> Iterator[Draw]:
    if shutil.which("strace") is None:
        pytest.skip("NOT TESTED: there is no strace here")
    number = seeds.seed()
    yield Draw(tmp_path, random.Random(number), number)
    for pid in processes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)
