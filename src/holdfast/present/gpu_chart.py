"""A chart of a run's GPUs for a file: load, memory and power of each GPU over time."""

from __future__ import annotations

import math

from holdfast.errors import UsageError
from holdfast.present.drawing.axes import moments
from holdfast.present.drawing.shapes import Area, Box, Line, Picture, Words
from holdfast.present.files import picture_renderer, write_file
from holdfast.present.gpu_card import indexes, names_by_index, read_series
from holdfast.present.gpu_receipt import text
from holdfast.record import Record
from holdfast.store import history_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.metrics.values import Series
    from holdfast.present.drawing.shapes import Point
    from holdfast.store.runs import Run

_WIDTH, _LEFT, _RIGHT = 960, 96, 24
_TOP, _HEAD, _STRIP, _GAP, _FOOT = 48, 30, 96, 22, 44
_INK, _FAINT, _GRID, _GROUND = "#20262e", "#66707c", "#dde2e8", "#f7f8fa"
_GB = 1000**3


class Strip(Record):
    """One measured thing of a card: its name, unit, the colours of its line and of what is below, and its top."""

    name: str
    unit: str
    line: str
    below: str
    points: tuple[tuple[float, float], ...]
    top: float


def draw(run: Run, path: str) -> None:
    """Write the chart into a file whose ending says which form it has."""
    render = picture_renderer("--gpu-chart", path)
    series = read_series(run)
    if not indexes(series):
        what = "this run has no GPU samples"
        raise UsageError(
            what, where=str(run.request.get("run_id")), hint="GPU samples are recorded for runs that request GPUs"
        )
    write_file(path, render(picture(run, series)))


def picture(run: Run, series: dict[str, Series]) -> Picture:
    start = _start(run, series)
    length = max((samples.times[-1] - start) / 1e9 for samples in series.values())
    names = names_by_index(run)
    title = f"run {run.request.get('run_number')} ({run.request.get('run_id')})"
    verdict = text((history_record.gpu_receipt(run) or {}).get("verdict"))
    shapes: list[Box | Line | Area | Words] = [
        Words(_LEFT, 28, f"{title}: {run.request.get('script')}", _INK, large=True),
        Words(_WIDTH - _RIGHT, 28, f"GPU {verdict}" if verdict else "so far", _FAINT, "end"),
    ]
    top = float(_TOP)
    for index in indexes(series):
        name, memory = names.get(index, ("", None))
        shapes.append(Words(_LEFT, top + 16, f"GPU {index}  {name}".rstrip(), _INK))
        top += _HEAD
        strips = [strip for strip in _strips(index, series, start, memory) if strip.points]
        for number, strip in enumerate(strips):
            shapes += _strip(strip, top, max(length, 1.0), is_last=number == len(strips) - 1)
            top += _STRIP + _GAP
        top += _FOOT - _GAP
    return Picture(_WIDTH, round(top), tuple(shapes), title)


def _start(run: Run, series: dict[str, Series]) -> int:
    """When the script began, if that is before the first sample."""
    first = min(samples.times[0] for samples in series.values())
    began = next((event.get("wall_ns") for event in run.events if event.get("type") == "started"), None)
    return began if isinstance(began, int) and first - 3600 * 10**9 < began < first else first


def _strips(index: int, series: dict[str, Series], start: int, memory: float | None) -> list[Strip]:
    busy, used, power = (_points(series.get(f"gpu{index}.{name}"), start) for name in ("busy", "memory", "power"))
    used = tuple((moment, value / _GB) for moment, value in used)
    full = (memory or 0) / _GB or _highest(used)
    return [
        Strip("busy", "%", "#0f766e", "#d5efeb", busy, 100.0),
        Strip("memory", "GB", "#1d4ed8", "#dbe6fd", used, max(full, _highest(used), 0.1)),
        Strip("power", "W", "#c2410c", "#fde4d3", power, max(_highest(power) * 1.05, 1.0)),
    ]


def _points(series: Series | None, start: int) -> tuple[tuple[float, float], ...]:
    if series is None:
        return ()
    pairs = zip(series.times, series.values, strict=True)
    return tuple(
        ((moment - start) / 1e9, float(value))
        for moment, value in pairs
        if isinstance(value, (int, float)) and math.isfinite(value)
    )


def _highest(points: tuple[tuple[float, float], ...]) -> float:
    return max((value for _, value in points), default=0.0)


def _strip(strip: Strip, top: float, length: float, *, is_last: bool) -> list[Box | Line | Area | Words]:
    wide, base = _WIDTH - _LEFT - _RIGHT, top + _STRIP
    shapes: list[Box | Line | Area | Words] = [Box(_LEFT, top, wide, _STRIP, _GROUND)]
    for value, label in _ticks(strip.top, strip.unit):
        y = base - _STRIP * value / strip.top
        shapes += [Line(((_LEFT, y), (_LEFT + wide, y)), _GRID), Words(_LEFT - 8, y + 4, label, _FAINT, "end")]
    for moment, label in moments(length):
        x = _LEFT + wide * moment / length
        shapes.append(Line(((x, top), (x, base)), _GRID))
        if is_last:
            shapes += [Line(((x, base), (x, base + 5)), _FAINT), Words(x, base + 20, label, _FAINT, "middle")]
    placed = tuple(_place(point, strip.top, length, top, wide) for point in strip.points)
    outline = _thinned(placed)
    shapes.append(Area(outline, base, strip.below))
    shapes.append(Line(outline, strip.line, 1.5))
    shapes.append(Line(((_LEFT, base), (_LEFT + wide, base)), _FAINT))
    shapes.append(Words(_WIDTH - _RIGHT, top - 6, strip.name, strip.line, "end"))
    return shapes


def _place(point: Point, highest: float, length: float, top: float, wide: float) -> Point:
    x, y = min(max(point[0] / length, 0.0), 1.0), min(max(point[1] / highest, 0.0), 1.0)
    return _LEFT + wide * x, top + _STRIP * (1 - y)


def _thinned(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """At most four points for a column, so that a week is a small file and no peak is lost."""
    columns: dict[int, list[Point]] = {}
    for point in points:
        columns.setdefault(round(point[0]), []).append(point)
    result: list[Point] = []
    for column in columns.values():
        if len(column) > 4:
            inner = (min(column, key=lambda point: point[1]), max(column, key=lambda point: point[1]))
            column = sorted({column[0], *inner, column[-1]})  # noqa: PLW2901
        result += column
    return tuple(result)


def _ticks(highest: float, unit: str) -> list[tuple[float, str]]:
    """Round numbers from 0 up, three to six of them."""
    rough = highest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * digit for digit in (1, 2, 2.5, 5, 10) if power * digit >= rough * 0.999)
    count = int(highest / step + 1e-9)
    return [(step * number, f"{step * number:g} {unit}") for number in range(count + 1)]
