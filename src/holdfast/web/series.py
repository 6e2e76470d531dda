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
_LOG = "log.bytes"
_IDLE_PERCENT = 20.0
_IDLE_S = 3.0  # shorter pauses are no finding
_MOST_STRETCHES = 200
_MOST_EVENTS = 200


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
    return [name for name, series in metrics.by_name.items() if any(map(_is_number, series.values[:1000]))]


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
        "events": _events(run, zero),
        "idle": _idle(gpu, zero),
        "has_log": _LOG in gpu,
    }


def log_offset(run: Run, second: float) -> int | None:
    """How long the log was at this moment of the time axis; None where that was not recorded."""
    metrics, gpu = read(run)
    sizes = gpu.get(_LOG)
    if sizes is None:
        return None
    at = bisect_left(sizes.times, begin_ns(run, metrics, gpu) + round(second * 1e9))
    size = sizes.values[min(at, len(sizes.values) - 1)]
    return int(size) if isinstance(size, (int, float)) and math.isfinite(size) and size >= 0 else None


def _events(run: Run, zero: int) -> list[Json]:
    """What the runner recorded, with its moment; what has no time is left out."""
    rows: list[Json] = []
    for event in run.events:
        moment = event.get("wall_ns")
        if isinstance(moment, int):
            why = next((event[name] for name in ("reason", "why", "meaning", "program") if event.get(name)), "")
            seconds = round((moment - zero) / 1e9, 3)
            rows.append({"second": seconds, "type": str(event.get("type")), "text": str(why)[:300]})
    return rows[:_MOST_EVENTS]


def _idle(gpu: dict[str, Series], zero: int) -> list[list[float]]:
    """Stretches in which none of the run's GPUs was busy, as seconds of their begin and end."""
    busiest: dict[int, float] = {}
    for name, series in gpu.items():
        if name.startswith("gpu") and name.endswith(".busy"):
            for step, value in zip(series.steps, series.values, strict=True):
                if isinstance(value, (int, float)):
                    busiest[step] = max(busiest.get(step, 0.0), value)
    first = next((series for name, series in gpu.items() if name.endswith(".busy") and name.startswith("gpu")), None)
    stretches: list[list[float]] = []
    begin: float | None = None
    for step, moment in zip(first.steps, first.times, strict=True) if first is not None else ():
        second = round((moment - zero) / 1e9, 3)
        if busiest[step] < _IDLE_PERCENT:
            begin = second if begin is None else begin
        else:
            stretches += [[begin, second]] if begin is not None and second - begin >= _IDLE_S else []
            begin = None
    if first is not None and begin is not None and second - begin >= _IDLE_S:
        stretches.append([begin, second])
    return stretches[:_MOST_STRETCHES]


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
