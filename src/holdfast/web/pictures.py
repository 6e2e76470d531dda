"""Logged pictures of runs, by name and step."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from holdfast.metrics import values
from holdfast.store import runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.metrics.reader import Metrics
    from holdfast.model import Json
    from holdfast.store.runs import Run

_MOST_NAMES = 24
_MOST_STEPS = 5000


def known(compared: Sequence[Run], logged: Sequence[Metrics]) -> list[Json]:
    """For each name: all steps, and of each run which of its values is the picture of a step."""
    result: list[Json] = []
    for name in dict.fromkeys(name for metrics in logged for name in metrics.by_name):
        places: list[dict[int, int]] = []
        for metrics in logged:
            series = metrics.by_name.get(name)
            has_pictures = series is not None and not isinstance(series.values, array)  # an array has numbers alone
            pairs = zip(series.steps, series.values, strict=True) if series is not None and has_pictures else ()
            places.append({step: at for at, (step, value) in enumerate(pairs) if values.image(value) is not None})
        steps = sorted({step for known_steps in places for step in known_steps})[:_MOST_STEPS]
        if steps:
            rows = [
                {"uid": run.uid, "at": [at_step.get(step) for step in steps]}
                for run, at_step in zip(compared, places, strict=True)
            ]
            result.append({"name": name, "steps": steps, "runs": rows})
        if len(result) == _MOST_NAMES:
            break
    return result


def read(run: Run, logged: Metrics, name: str, at: int) -> tuple[bytes, str] | None:
    """The bytes and the type of one picture."""
    series = logged.by_name.get(name)
    image = values.image(series.values[at]) if series is not None and at < len(series.values) else None
    if image is None:
        return None
    parts = (values.read_image(folder, image) for folder in reversed(runs.metric_folders(run)))
    data = next((data for data in parts if data is not None), None)
    return None if data is None else (data, image.media_type)
