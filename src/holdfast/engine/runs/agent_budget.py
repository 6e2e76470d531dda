"""The GPU-hours that AI agents may still use: the allowance less what they used.

A line is written before each submit. A running run counts with its whole time limit, so that the allowance is never
exceeded.
"""

from __future__ import annotations

import os
import time

from holdfast import settings
from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner.store import jsonl, layout
from holdfast.store import history_record, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.home import Home

WINDOW_S = 24 * 3600


class Budget(Record):
    """GPU-hours in any 24 hours."""

    allowed: float
    spent: float

    @property
    def left(self) -> float:
        return max(0.0, self.allowed - self.spent)


def look(home: Home) -> Budget:
    """What the user allows (``agentGpuHours``) and what was taken in the last 24 hours."""
    allowed = float(settings.read(home.settings)["agentGpuHours"])
    began = time.time() - WINDOW_S
    lines = jsonl.read_lines(os.fsencode(_path(home)))
    known = {str(line["asked"]): str(line["uid"]) for line in lines if "uid" in line}
    refused = {str(line["asked"]) for line in lines if line.get("refused")}
    requests = [line for line in lines if "gpus" in line and str(line.get("asked")) not in refused]
    recent = [line for line in requests if _number(line.get("at")) >= began]
    return Budget(allowed, sum(_hours(home, line, known.get(str(line.get("asked")))) for line in recent))


def reserve(home: Home, gpus: int, seconds: float) -> str:
    """Reserve this much before the run is started; returns the name under which the run is recorded afterwards."""
    if not gpus:
        return ""
    with home.lock("agent"):
        budget = look(home)
        wanted = gpus * seconds / 3600
        if wanted > budget.left + 1e-9:
            raise UsageError(
                f"{wanted:.3g} GPU-hours requested, but only {budget.left:.3g} of {budget.allowed:.3g} are left",
                hint="use a shorter timeout or fewer gpus; or the user runs: holdfast config agentGpuHours HOURS",
            )
        name = os.urandom(8).hex()
        _write(home, {"asked": name, "at": time.time(), "gpus": gpus, "seconds": seconds})
    return name


def settle(home: Home, name: str, uid: str | None) -> None:
    """Which run it became; None where it was refused and took nothing."""
    if name:
        _write(home, {"asked": name, "uid": uid} if uid else {"asked": name, "refused": True})


def _hours(home: Home, line: Json, uid: str | None) -> float:
    """What a run took if it is over, else what it may take."""
    gpus, seconds = _number(line.get("gpus")), _number(line.get("seconds"))
    if uid and runs.is_uid(uid) and os.path.isdir(home.run(uid)):
        events = {str(event.get("type")): event for event in reversed(runs.read(home, uid).events)}
        if "closed" in events:
            length = history_record.length_ns(events.get("gpu_taken") or events.get("started"), events["closed"])
            seconds = (length or 0) / 1e9
    return gpus * seconds / 3600


def _write(home: Home, line: Json) -> None:
    jsonl.append_line(os.fsencode(_path(home)), line)


def _path(home: Home) -> str:
    return layout.agent(home.path)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
