"""Metric and GPU series of a run for charts: a time range of them, downsampled with their peaks kept."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from holdfast.metrics import reader
from holdfast.metrics.downsample import places
from holdfast.present.gpu_card import read_series
from holdfast.store import runs

if TYPE_CHECKING:
    from holdfast.metrics.reader import Metrics
    from holdfast.metrics.values import Series
    from holdfast.model import Json
    from holdfast.store.runs import Run

_PARTS = 500  # stretches, of which each gives up to four points
_MOST_SERIES = 12
_LANES = ("busy", "memory", "power")


def read(run: Run) -> tuple[Metrics, dict[str, Series]]:
    return reader.read_attempts(runs.metric_folders(run)), read_series(run)


def begin_ns(run: Run, metrics: Metrics, gpu: dict[str, Series]) -> int:
    """The zero of the common time axis: when the script started, or the first sample."""
    started = next((event.get("wall_ns") for event in run.events if event.get("type") == "started"), None)
    firsts = [series.times[0] for series in (*metrics.by_name.values(), *gpu.values()) if len(series.times)]
    if isinstance(started, int):
        return min([started, *(first for first in firsts if started - first < 3_600 * 10**9)])
    return min(firsts, default=0)


def names(metrics: Metrics) -> list[str]:
    """Series with numbers to draw, in the order in which they were logged."""
    return [name for name, series in metrics.by_name.items() if any(map(_is_number, series.values[:3]))]


def curves(run: Run, wanted: list[str], start: float | None, end: float | None) -> Json:
    """``curves`` and ``lanes``: seconds and values of each series between ``start`` and ``end``."""
    metrics, gpu = read(run)
    zero = begin_ns(run, metrics, gpu)
    known = names(metrics)
    chosen = [name for name in wanted if name in metrics.by_name] or known[:_MOST_SERIES]
    lanes = [name for name in gpu if name.partition(".")[2] in _LANES and name.startswith("gpu")]
    return {
        "names": known[:2000],
        "total": len(known),
        "curves": [_points(metrics.by_name[name], zero, start, end) for name in chosen[:_MOST_SERIES]],
        "lanes": [_points(gpu[name], zero, start, end) for name in sorted(lanes)[:48]],
    }


def _points(series: Series, zero: int, start: float | None, end: float | None) -> Json:
    first = 0 if start is None else max(0, bisect_left(series.times, zero + round(start * 1e9)) - 1)
    last = len(series.times) if end is None else bisect_right(series.times, zero + round(end * 1e9)) + 1
    part = series._replace(
        steps=series.steps[first:last], times=series.times[first:last], values=series.values[first:last]
    )
    chosen = places(part, _PARTS)
    return {
        "name": series.name,
        "points": len(part.values),
        "seconds": [round((part.times[at] - zero) / 1e9, 6) for at in chosen],
        "steps": [part.steps[at] for at in chosen],
        "values": [part.values[at] if _is_number(part.values[at]) else None for at in chosen],
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
