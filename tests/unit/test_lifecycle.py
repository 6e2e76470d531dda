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


def test_events_never_move_a_run_back() -> None:
    kinds = ("accepted", "queued", "started", "stopping", "exited")
    states = ("Submitting", "Preparing", "Queued", "Running", "CancelRequested", "Finalizing")
    for number, state in enumerate(states):
        for event, after in zip(kinds, states[1:], strict=True):
            expected = max(state, after, key=states.index)
            assert lifecycle.advance(state, {"type": event}) == expected, (number, event)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("completed", "Completed"), ("failed", "Failed"), ("canceled", "Canceled"), ("lost", "Lost"), ("other", "Lost")],
)
def test_closing_event_ends_a_run_in_every_state_and_stays(outcome: str, state: str) -> None:
    closed = {"type": "closed", "outcome": outcome}
    for before in ("Submitting", "Running", "Finalizing"):
        assert lifecycle.advance(before, closed) == state
    assert lifecycle.advance(state, {"type": "closed", "outcome": "failed"}) == state
    assert lifecycle.advance(state, {"type": "started"}) == state
