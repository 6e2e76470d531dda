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


EXITED = {"type": "exited", "code": -9}
CLOSED = {"type": "closed", "outcome": "failed", "exit_code": 137}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([EXITED, CLOSED], True),
        ([{"type": "exited", "code": 137}, CLOSED], True),
        ([EXITED, CLOSED, {**CLOSED, "outcome": "lost"}], True),
        ([EXITED, {**CLOSED, "outcome": "lost"}, CLOSED], False),
        ([EXITED, {**CLOSED, "outcome": "canceled"}], False),
        ([EXITED, {**CLOSED, "exit_code": 1}], False),
        ([{"type": "stopping", "why": "timeout"}, EXITED, CLOSED], False),
        ([{"type": "killed", "why": "still running"}, EXITED, CLOSED], False),
        ([CLOSED], False),
        ([EXITED], False),
    ],
)
def test_killed_is_a_script_that_others_ended_by_sigkill(events: list[dict[str, object]], expected: bool) -> None:
    assert lifecycle.was_killed(events) is expected
