"""The attempts of a run: when each began and ended, why, and which one it resumed."""

from __future__ import annotations

from holdfast import lifecycle
from holdfast.store import history_record, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run


def rows(run: Run) -> list[Json]:
    """One for each attempt, the first one first."""
    return [_row(runs.attempt(run, number)) for number in range(1, run.attempt_number)] + [_row(run)]


def _row(run: Run) -> Json:
    by_type = {str(event.get("type")): event for event in reversed(run.events)}
    closed = by_type.get("closed", {})
    began = by_type.get("started") or by_type.get("accepted") or {}
    return {
        "attempt": run.attempt_number,
        "status": lifecycle.state_of(run.events),
        "start_time_utc": history_record.utc(began.get("wall_ns")),
        "end_time_utc": history_record.utc(closed.get("wall_ns")),
        "exit_code": closed.get("exit_code"),
        "reason": history_record.reason(run, outputs=False),
        "resumed_from": runs.resumed_from(run) or None,
    }
