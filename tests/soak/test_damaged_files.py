"""Every file of a store cut and damaged many thousand times; ``tests/disks/test_damaged_files.py`` has the oracles."""

from __future__ import annotations

import tempfile
from pathlib import Path

import seeds
from disks.damage import Stage, judge
from security.project_files import memory

CASES = 30_000
_SHOWN = 20


def test_thirty_thousand_damaged_files_cost_what_they_held_and_no_more() -> None:
    found: list[str] = []
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        stage = Stage(Path(folder))
        try:
            for case in stage.cases(CASES, seeds.seed()):
                found += judge(stage, case)
                assert len(found) < _SHOWN, "\n".join(found)
        finally:
            stage.close()
    assert found == [], "\n".join(found)
