"""Every file of a store cut at every byte, and damaged many thousand times.

``tests/disks/test_damaged_files.py`` has the oracles. ``HOLDFAST_SOAK_PART=10`` plays a tenth of the cuts.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import seeds
from disks.damage import Stage, judge
from security.project_files import memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from disks.damage import Case

CASES = 30_000
PART = int(os.environ.get("HOLDFAST_SOAK_PART", "1"))
SHARES = 64  # of the cuts: each with a store of its own, so that several can be played side by side
_SHOWN = 20
pytestmark = pytest.mark.timeout(0)


def _judged(stage: Stage, cases: Iterable[Case]) -> list[str]:
    found: list[str] = []
    for case in cases:
        found += judge(stage, case)
        assert len(found) < _SHOWN, "\n".join(found)
    return found


@pytest.fixture(name="stage", scope="module")
def stage_fixture() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        stage = Stage(Path(folder))
        yield stage
        stage.close()


@pytest.mark.parametrize("share", range(SHARES))
def test_every_file_is_cut_at_every_byte(stage: Stage, share: int) -> None:
    found = _judged(stage, itertools.islice(stage.cuts(), share, None, SHARES * PART))
    assert found == [], "\n".join(found)


def test_thirty_thousand_damaged_files_cost_what_they_held_and_no_more(stage: Stage) -> None:
    found = _judged(stage, stage.cases(CASES, seeds.seed()))
    assert found == [], "\n".join(found)
