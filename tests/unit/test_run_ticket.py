"""The ticket of a run is the one that its launcher gave, as client.jsonl keeps it."""

from __future__ import annotations

import pytest

from holdfast.store.runs import Run

UID = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("noted", "attempt", "ticket"),
    [
        ([], 1, f"{UID}/a1"),
        ([f"{UID}/a1"], 1, f"{UID}/a1"),
        ([f"{UID}/a1/1234.server"], 1, f"{UID}/a1/1234.server"),
        ([f"{UID}/a1/1", f"{UID}/a1/2"], 1, f"{UID}/a1/2"),
        ([f"{UID}/a1/1", f"{UID}/a2/2"], 1, f"{UID}/a1/1"),
        ([f"{UID}/a1/1"], 2, f"{UID}/a2"),
        ([f"{UID}/a10/1"], 1, f"{UID}/a1"),
        ([f"{'f' * 32}/a1/1"], 1, f"{UID}/a1"),
        ([None, 7, {}], 1, f"{UID}/a1"),
    ],
)
def test_ticket_is_the_last_one_noted_for_the_attempt(noted: list[object], attempt: int, ticket: str) -> None:
    lines: list[dict[str, object]] = [{"type": "ticket", "ticket": one} for one in noted]
    run = Run(UID, "/runs", {}, [], [*lines, {"type": "cancel", "by": "ada"}], "", attempt)
    assert run.ticket == ticket
    assert run.is_start_noted == (ticket in noted)
