"""States from events alone."""

from __future__ import annotations

import pytest

from holdfast import lifecycle


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ("", "Submitting"),
        ("accepted", "Preparing"),
        ("accepted preparing queued", "Queued"),
        ("accepted queued queued gpu_taken gpu_facts", "Queued"),
        ("accepted queued gpu_taken started", "Running"),
        ("accepted started queued", "Running"),
        ("accepted queued stopping", "CancelRequested"),
        ("accepted queued gpu_taken started gpu_context exited gpu_receipt", "Finalizing"),
    ],
)
def test_the_state_after_events(kinds: str, state: str) -> None:
    assert lifecycle.state_of({"type": kind} for kind in kinds.split()) == state


def test_a_queued_run_is_not_final() -> None:
    assert lifecycle.QUEUED not in lifecycle.FINAL
    closed = {"type": "closed", "outcome": "canceled"}
    assert lifecycle.state_of([{"type": "queued"}, closed, {"type": "started"}]) == "Canceled"
