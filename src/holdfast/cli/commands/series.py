"""``holdfast history metrics``"""

from __future__ import annotations

import json
import sys

from holdfast.cli import pick
from holdfast.errors import UsageError
from holdfast.metrics import downsample, reader
from holdfast.present import csv_table
from holdfast.present.output import emit
from holdfast.present.terminal import is_tty, show
from holdfast.store import history_record, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parse import Parsed
    from holdfast.metrics.reader import Metrics
    from holdfast.metrics.values import Series
    from holdfast.model import Json

_DIGEST = ("name", "points", "last", "min", "max", "best", "first_step", "last_step")
_POINT = ("name", "step", "time_utc", "value")
_AT_ONCE = 10_000


def show_metrics(parsed: Parsed) -> int:
    parts = _parts(parsed)
    _, run = pick.run(parsed)
    metrics = reader.read_attempts(runs.metric_folders(run))
    for problem in metrics.problems:
        sys.stderr.write(f"WARNING: {show(problem)}\n")
    name = parsed.text("name")
    if name is None:
        rows = [_digest(series) for series in metrics.by_name.values()]
        emit(rows, **parsed.form(), columns=_DIGEST)
        return 0
    points = _points(_series(metrics, name, str(run.request.get("run_id"))), parts)
    if parsed.text("output") == "csv" and parsed.text("query") is None:
        _stream(points)
    else:
        rows = [dict(zip(_POINT, point, strict=True)) for point in points]
        emit(rows, **parsed.form(), columns=_POINT)
    return 0


def _parts(parsed: Parsed) -> int | None:
    text = parsed.text("points")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 4 <= int(text[:10]) <= 10**9):
        raise UsageError(f"--points {text}: not a number of points", hint="--points 1000, at least 4")
    return int(text[:10]) // 4


def _series(metrics: Metrics, name: str, run_id: str) -> Series:
    if name in metrics.by_name:
        return metrics.by_name[name]
    from difflib import get_close_matches

    near = get_close_matches(name, metrics.by_name, n=3, cutoff=0.4)
    near = list(dict.fromkeys((*near, *metrics.by_name)))[:10]
    hint = f"it has: {', '.join(near)}" if near else "it has no metrics"
    raise UsageError(f"this run has no metric {name!r}", where=run_id, hint=hint)


def _digest(series: Series) -> Json:
    digest = reader.digest(series)
    values = (
        digest.name,
        digest.points,
        digest.last,
        digest.least,
        digest.greatest,
        digest.best,
        digest.first_step,
        digest.last_step,
    )
    return dict(zip(_DIGEST, values, strict=True))


def _points(series: Series, parts: int | None) -> Iterator[tuple[object, ...]]:
    places = range(len(series.values)) if parts is None else downsample.places(series, parts)
    for at in places:
        yield series.name, series.steps[at], history_record.utc(series.times[at]), _exact(series.values[at])


def _exact(value: object) -> object:
    """NaN and the infinities by name, which JSON has no words for."""
    return repr(value) if isinstance(value, float) and value - value != 0 else value


def _stream(points: Iterator[tuple[object, ...]]) -> None:
    isatty = is_tty(sys.stdout)
    lines = [csv_table.line(_POINT)]
    for point in points:
        lines.append(csv_table.line(_plain(point), isatty))
        if len(lines) == _AT_ONCE:
            sys.stdout.write("".join(lines))
            lines.clear()
    sys.stdout.write("".join(lines))


def _plain(point: tuple[object, ...]) -> tuple[object, ...]:
    """A number that has only a name is no formula."""
    *rest, value = point
    if value == "-inf":
        return (*rest, float("-inf"))
    return (*rest, json.dumps(value) if isinstance(value, (list, dict)) else value)
