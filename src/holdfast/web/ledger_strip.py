"""Where the time of a run went, as the parts of one strip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import ledger

if TYPE_CHECKING:
    from holdfast.model import Json


def strip(recorded: object) -> list[Json]:
    """The parts of the run's time that took any, with their share."""
    result = recorded if isinstance(recorded, dict) else {}
    parts, wall = result.get("parts"), result.get("wall_s")
    if not isinstance(parts, dict) or not isinstance(wall, float) or wall <= 0:
        return []
    lengths = [(name, number, parts.get(name)) for number, name in enumerate(ledger.PARTS)]
    return [
        {"name": name, "number": number, "seconds": length, "share": min(1.0, length / wall)}
        for name, number, length in lengths
        if isinstance(length, float) and length >= 0.0005
    ]
