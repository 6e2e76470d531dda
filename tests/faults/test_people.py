"""Two clients on one run, cancels of whole families, and impatient Ctrl-C (F47, F59, F60)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faults.people_campaign import families, races, storms

if TYPE_CHECKING:
    from faults.conftest import Draw


def test_two_clients_stream_and_cancel_one_run(draw: Draw) -> None:
    draw.check(races(draw.place, draw.rng, 10))


def test_a_canceled_family_is_gone(draw: Draw) -> None:
    done = families(draw.place, draw.rng, 10)
    draw.check([cancel.kill for cancel in done])
    assert max(cancel.seconds for cancel in done) < 10  # the soak measures; here only that it is told at all


def test_ctrl_c(draw: Draw) -> None:
    draw.check(storms(draw.place, draw.rng, 10))
