"""Two dozen submits and a handful of readers on one store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disks.crowd import assert_nobody_lost, crowd

if TYPE_CHECKING:
    from conftest import Desk


def test_submits_and_readers_do_not_get_in_each_others_way(desk: Desk) -> None:
    outcome = crowd(desk, submits=24, readers=5)
    assert len(outcome.reads) >= 5
    assert_nobody_lost(desk, outcome)
