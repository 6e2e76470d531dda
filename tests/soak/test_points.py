"""A million values through 200 kills of script, runner and client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seeds
from faults.test_points import trouble

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


def test_a_million_values(desk: Desk, tmp_path: Path) -> None:
    assert not trouble(desk, tmp_path, kills=200, points=6000, seed=seeds.seed())
