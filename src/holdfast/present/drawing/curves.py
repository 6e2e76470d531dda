"""Line charts, panel below panel (pure)."""

from __future__ import annotations

import math
import sys

from holdfast.present.drawing import axes
from holdfast.present.drawing.shapes import Box, Line, Picture, Words
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.present.drawing.shapes import Area, Point

    Shapes = list[Box | Line | Area | Words]

WIDTH = 960
_LEFT, _RIGHT, _TOP, _HEAD, _PANEL, _FOOT = 96, 24, 44, 26, 220, 40
_WIDE = WIDTH - _LEFT - _RIGHT
_INK, _FAINT, _GRID, _GROUND = "#20262e", "#66707c", "#dde2e8", "#f7f8fa"
COLOURS = ("#1d4ed8", "#c2410c", "#0f766e", "#9333ea", "#b91c1c", "#4d7c0f", "#be185d", "#a16207")
_LETTER = 7.2  # how wide one is drawn
_FARTHEST = sys.float_info.max


class Curve(Record):
    """Points from left to right; one that is not finite leaves a gap. ``number`` says which colour it has."""

    name: str
    number: int
    points: tuple[Point, ...]


class Panel(Record):
    title: str
    curves: tuple[Curve, ...]


def picture(panels: Sequence[Panel], *, title: str, over_time: bool = False, log: bool = False) -> Picture:
    """``over_time``: what is to the right are seconds, else steps. ``log``: upwards by powers of ten."""
    shapes: Shapes = [Words(_LEFT, 26, _cut(title, _WIDE / (_LETTER * 1.3)), _INK, large=True)] if title else []
    top = float(_TOP) if title else 12.0
    names = {curve.number: curve.name for panel in panels for curve in panel.curves}
    rows = list(_legend_rows(names))
    for row in rows:
        for x, number, name in row:
            shapes += [Box(x, top - 3, 14, 4, COLOURS[number % len(COLOURS)]), Words(x + 20, top + 3, name, _INK)]
        top += 20
    for panel in panels:
        shapes += _panel(panel, top + _HEAD, over_time=over_time, log=log)
        top += _HEAD + _PANEL + _FOOT
    return Picture(WIDTH, round(top), tuple(shapes), title)


def _legend_rows(names: dict[int, str]) -> Iterator[list[tuple[float, int, str]]]:
    row: list[tuple[float, int, str]] = []
    x = float(_LEFT)
    for number, full in sorted(names.items()):
        name = _cut(full, 60)
        length = 20 + len(name) * _LETTER + 24
        if row and x + length > WIDTH - _RIGHT:
            yield row
            row, x = [], float(_LEFT)
        row.append((x, number, name))
        x += length
    if row:
        yield row


def _panel(panel: Panel, top: float, *, over_time: bool, log: bool) -> Shapes:
    curves = [(curve.number, list(_pieces(curve.points, log=log))) for curve in panel.curves]
    points = [point for _, pieces in curves for piece in pieces for point in piece]
    base = top + _PANEL
    shapes: Shapes = [Words(_LEFT, top - 8, _cut(panel.title, 100), _INK), Box(_LEFT, top, _WIDE, _PANEL, _GROUND)]
    if not points:
        message = "no value above 0" if log else "no numbers"
        return [*shapes, Words(_LEFT + _WIDE / 2, top + _PANEL / 2, message, _FAINT, "middle")]
    left, right = _span([0.0, *(x for x, _ in points)] if over_time else [x for x, _ in points], 0.0)
    low, high = _span([y for _, y in points], 0.04)
    for value, label in axes.powers(low, high) if log else axes.numbers(low, high):
        y = base - _PANEL * _share(value, low, high)
        shapes += [Line(((_LEFT, y), (_LEFT + _WIDE, y)), _GRID), Words(_LEFT - 8, y + 4, label, _FAINT, "end")]
    for value, label in axes.moments(right) if over_time else axes.numbers(left, right, 9):
        x = _LEFT + _WIDE * _share(value, left, right)
        shapes += [Line(((x, top), (x, base + 5)), _GRID), Words(x, base + 20, label, _FAINT, "middle")]
    for number, pieces in curves:
        for piece in pieces:
            placed = tuple(
                (_LEFT + _WIDE * _share(x, left, right), base - _PANEL * _share(y, low, high)) for x, y in piece
            )
            shapes.append(Line(placed, COLOURS[number % len(COLOURS)], 1.5 if len(piece) > 1 else 4))
    shapes.append(Line(((_LEFT, base), (_LEFT + _WIDE, base)), _FAINT))
    return shapes


def _pieces(points: Sequence[Point], *, log: bool) -> Iterator[list[Point]]:
    """Stretches without a gap, their heights as they are drawn."""
    piece: list[Point] = []
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y) and (not log or y > 0):
            piece.append((x, math.log10(y) if log else y))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _span(values: Sequence[float], room: float) -> tuple[float, float]:
    """From the least to the greatest value and a little beyond; a single value gets a margin."""
    low, high = min(values), max(values)
    rim = high * room - low * room
    if low / 2 == high / 2:
        rim = abs(low) / 10 or 0.5
    # At the far end of what a double holds there is no beyond.
    return max(low - rim, -_FARTHEST), min(high + rim, _FARTHEST)


def _share(value: float, low: float, high: float) -> float:
    # Halved first: the distance between two very large numbers is not finite.
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _cut(text: str, most: float) -> str:
    return text if len(text) <= most else text[: int(most) - 3] + "..."
