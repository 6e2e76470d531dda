"""Writes the files of a run that was not made by a supervisor: an imported one, or the record of a notebook's cell."""

from __future__ import annotations

import hashlib
import os

from holdfast.record import Record
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json


class Ending(Record):
    """How it ended; ``start`` and ``end`` in nanoseconds, ``source`` in the place of a machine's boot id."""

    outcome: str
    code: int
    reason: str
    start: int
    end: int
    source: str


def put(path: str, data: bytes) -> None:
    """A new file for this user."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(data)


def close(attempt: str, ending: Ending) -> None:
    """Write the events, with the hashes of the files that are there."""
    metrics = sorted(os.listdir(layout.metrics(attempt)))
    names = [layout.log.name, layout.manifest.name, *(f"{layout.metrics.name}/{name}" for name in metrics)]
    files = {name: _length_and_hash(os.path.join(attempt, name)) for name in names}
    put(layout.events(attempt), _events(ending, files))


def _length_and_hash(path: str) -> list[object]:
    with open(path, "rb") as source:
        data = source.read()
    return [len(data), hashlib.sha256(data).hexdigest()]


def _events(ending: Ending, files: dict[str, list[object]]) -> bytes:
    closed: Json = {"type": "closed", "outcome": ending.outcome, "exit_code": ending.code, "files": files}
    events: list[tuple[int, Json]] = [
        (ending.start, {"type": "accepted", "host": ""}),
        (ending.start, {"type": "started"}),
        (ending.end, {"type": "exited", "code": ending.code}),
        (ending.end, {**closed, "reason": ending.reason}),
    ]
    return b"".join(
        sealed({"seq": number, "wall_ns": moment, "mono_ns": moment, "boot_id": ending.source, **event})
        for number, (moment, event) in enumerate(events)
    )
