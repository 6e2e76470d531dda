"""Commands about a run that goes on, killed: it is not disturbed, and a cancel once written down happens (F09, F11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faults.campaign import Size, cancels, followers

if TYPE_CHECKING:
    from faults.conftest import Draw


def test_logs(draw: Draw) -> None:
    draw.check(followers(draw.place, draw.rng, Size(0, 4), far=False))


def test_logs_of_another_store(draw: Draw) -> None:
    draw.check(followers(draw.place, draw.rng, Size(0, 4), far=True))


def test_cancel(draw: Draw) -> None:
    draw.check(cancels(draw.place, draw.rng, Size(8, 2)))
