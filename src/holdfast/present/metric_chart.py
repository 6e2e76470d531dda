"""Reduces logged series to curves that fit a terminal or a picture."""

from __future__ import annotations

import sys

from holdfast.errors import UsageError
from holdfast.metrics import downsample, reader
from holdfast.present.drawing.curves import WIDTH, Curve, Panel
from holdfast.present.terminal import show
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.metrics.reader import Metrics
    from holdfast.metrics.values import Series
    from holdfast.present.drawing.shapes import Point
    from holdfast.store.runs import Run

_PANELS = 8  # drawn where no names are given


def label(run: Run) -> str:
    return f"run {run.request.get('run_number') or run.uid[:8]}"


def read(chosen: Sequence[Run]) -> list[Metrics]:
    """What each of the runs logged; problems are reported on stderr."""
    logged = [reader.read_attempts(runs.metric_folders(run)) for run in chosen]
    for metrics in logged:
        for problem in metrics.problems:
            sys.stderr.write(f"WARNING: {show(problem)}\n")
    return logged


def names(logged: Sequence[Metrics], requested: Sequence[str]) -> list[str]:
    """The series to draw: those requested, else those with several points. One that no run has is an error."""
    known = {name: None for metrics in logged for name in metrics.by_name}
    missing = [name for name in requested if name not in known]
    if missing:
        from difflib import get_close_matches

        near = get_close_matches(missing[0], known, n=3, cutoff=0.4)
        near = list(dict.fromkeys((*near, *known)))[:10]
        hint = f"it has: {', '.join(near)}" if near else "no metrics were logged"
        raise UsageError(f"these runs have no metric {missing[0]!r}", hint=hint)
    if requested:
        return list(dict.fromkeys(requested))
    shaped = [name for name in known if any(has_shape(metrics.by_name.get(name)) for metrics in logged)]
    if not shaped:
        raise UsageError("there is no numeric series to plot", hint="holdfast history metrics shows what was logged")
    return shaped[:_PANELS]


def panels(
    chosen: Sequence[Run], logged: Sequence[Metrics], wanted: Sequence[str], *, over_time: bool = False
) -> list[Panel]:
    """A panel for each name with a curve for each run that has it."""
    drawn = []
    for name in wanted:
        curves = [
            Curve(label(run), number, points(metrics.by_name[name], run, over_time=over_time))
            for number, (run, metrics) in enumerate(zip(chosen, logged, strict=True))
            if name in metrics.by_name
        ]
        drawn.append(Panel(name, tuple(curves)))
    return drawn


def points(series: Series, run: Run, *, over_time: bool, parts: int = WIDTH) -> tuple[Point, ...]:
    """At most four points for each of so many stretches; peaks stay. What is no number leaves a gap."""
    places = downsample.places(series, parts)
    start = _start(run, series)
    return tuple(
        ((series.times[at] - start) / 1e9 if over_time else float(series.steps[at]), _number(series.values[at]))
        for at in places
    )


def has_shape(series: Series | None) -> bool:
    return series is not None and len(series.values) > 1 and any(_number(v) == _number(v) for v in series.values[:100])


def _start(run: Run, series: Series) -> int:
    """When the script began, if a clock that was set in between does not make nonsense of it."""
    first = series.times[0]
    began = next((event.get("wall_ns") for event in run.events if event.get("type") == "started"), None)
    return began if isinstance(began, int) and began < first else first


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")
