"""A submit, killed at exact system calls and at any moment: no id, or a run that the next command finds (F01-F07)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faults.campaign import Size, first_submits, submits

if TYPE_CHECKING:
    from faults.conftest import Draw


def test_detached(draw: Draw) -> None:
    draw.check(submits(draw.place, draw.rng, Size(12, 4), attached=False, far=False))


def test_waiting_submit_killed_at_each_step(draw: Draw) -> None:
    draw.check(submits(draw.place, draw.rng, Size(5, 6), attached=True, far=False))


def test_to_another_store(draw: Draw) -> None:
    draw.check(submits(draw.place, draw.rng, Size(8, 4), attached=True, far=True))


def test_the_first_of_a_store(draw: Draw) -> None:
    draw.check(first_submits(draw.place, draw.rng, Size(8, 0)))
