"""Commands that remove, rebuild and put back, killed: the store is whole and the next one finishes (F12, F13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from faults.campaign import Size, housekeeping, restores

if TYPE_CHECKING:
    from faults.conftest import Draw


@pytest.mark.parametrize("what", ["store prune", "store reindex", "history delete", "history list"])
def test_maintenance_command_killed_at_each_step(draw: Draw, what: str) -> None:
    draw.check(housekeeping(draw.place, draw.rng, Size(4, 1), what))


def test_restore(draw: Draw) -> None:
    draw.check(restores(draw.place, draw.rng, Size(6, 1)))
