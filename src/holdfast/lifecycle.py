"""The state machine of a run: (State, Fact) -> State. Pure.

The runner's events decide. A launcher's answer can only show that the target does not answer; it never ends a run.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SUBMITTING = "Submitting"
PREPARING = "Preparing"
QUEUED = "Queued"
RUNNING = "Running"
CANCEL_REQUESTED = "CancelRequested"
FINALIZING = "Finalizing"
COMPLETED = "Completed"
FAILED = "Failed"
CANCELED = "Canceled"
LOST = "Lost"

FINAL = frozenset({COMPLETED, FAILED, CANCELED, LOST})
OUTCOMES = {"completed": COMPLETED, "failed": FAILED, "canceled": CANCELED, "lost": LOST}
KILLED_CODE = 128 + 9

_ORDER = (SUBMITTING, PREPARING, QUEUED, RUNNING, CANCEL_REQUESTED, FINALIZING)
_AFTER = {
    "accepted": PREPARING,
    "queued": QUEUED,
    "started": RUNNING,
    "stopping": CANCEL_REQUESTED,
    "exited": FINALIZING,
}


def advance(state: str, event: Mapping[str, object]) -> str:
    """The state after one more event. A final state stays: the first closing event is the only one that counts."""
    if state in FINAL:
        return state
    kind = event.get("type")
    if kind == "closed":
        return OUTCOMES.get(str(event.get("outcome")), LOST)
    return max(state, _AFTER.get(str(kind), state), key=_ORDER.index)


def was_killed(events: Iterable[Mapping[str, object]]) -> bool:
    """Whether the script was ended by a SIGKILL that the runner did not send, as by the kernel when memory runs out.

    A shell that runs it ends with the same exit code.
    """
    kinds: dict[object, Mapping[str, object]] = {}
    for event in events:
        kinds.setdefault(event.get("type"), event)
    closed = kinds.get("closed", {})
    is_failed = closed.get("outcome") == "failed" and closed.get("exit_code") == KILLED_CODE
    return is_failed and "exited" in kinds and "stopping" not in kinds and "killed" not in kinds


def state_of(events: Iterable[Mapping[str, object]]) -> str:
    state = SUBMITTING
    for event in events:
        state = advance(state, event)
    return state
