"""The ticket of a run is the one that its launcher gave, as client.jsonl keeps it."""

from __future__ import annotations

import pytest

from holdfast.store import history_record
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


@pytest.mark.parametrize(
    ("ticket", "events", "client", "status", "reason"),
    [
        (f"{UID}/a1/77.pbs", [], [], "Queued", "job 77.pbs waits in the queue of the target"),
        (f"{UID}/a1", [], [], "Preparing", ""),
        (f"{UID}/a2/77.pbs", [], [], "Submitting", ""),
        (f"{UID}/a1/77.pbs", ["accepted"], [], "Preparing", ""),
        (f"{UID}/a1/77.pbs", ["accepted", "started"], [], "Running", ""),
        (f"{UID}/a1/77.pbs", [], ["cancel"], "CancelRequested", "job 77.pbs waits in the queue of the target"),
    ],
)
def test_run_is_queued_while_its_job_waits_in_a_batch_queue(
    ticket: str, events: list[str], client: list[str], status: str, reason: str
) -> None:
    lines: list[dict[str, object]] = [{"type": "ticket", "ticket": ticket}]
    lines += [{"type": kind} for kind in client]
    run = Run(UID, "/runs", {}, [{"type": kind} for kind in events], lines)
    record = history_record.record(run)
    assert (record["status"], record["reason"]) == (status, reason)
