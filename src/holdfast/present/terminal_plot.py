"""Small pictures of numbers in a terminal: a sparkline of one row, and a line chart drawn in braille dots."""

from __future__ import annotations

import math
from itertools import groupby, pairwise

from holdfast.present import terminal
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO, TypeAlias

    Points: TypeAlias = tuple[Sequence[float], Sequence[float]]

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.:-=+*#"
_ASCII_MARKS = "*+ox#@%&"
_COLOURS = (36, 33, 35, 32, 34, 31)
_BRAILLE = 0x2800
# Bits of the eight dots of a braille cell: by row from the top, then by column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def can_draw(stream: TextIO) -> bool:
    """Whether the stream's encoding has block, braille and line characters."""
    try:
        (_BARS + chr(_BRAILLE) + "┤│└─").encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def sparkline(
    values: Sequence[float], width: int, *, fancy: bool = True, between: tuple[float, float] | None = None
) -> str:
    """The values as one row of at most ``width`` bars; a blank where there is no number.

    The bars go from the lowest value to the highest, or ``between`` two numbers that the values do not leave.
    """
    bars = _BARS if fancy else _ASCII_BARS
    values = _thinned(values, width)
    low, high = between or _range(values)
    return "".join(
        bars[min(int(_share(value, low, high) * len(bars)), len(bars) - 1)] if math.isfinite(value) else " "
        for value in values
    )


def chart(
    series: Mapping[str, Points],
    width: int,
    height: int,
    *,
    fancy: bool = True,
    colour: bool = False,
    log: bool = False,
) -> list[str]:
    """The series as lines over one pair of axes: ``height`` rows of picture and two of x-axis, ``width`` columns.

    Each line's name is at its right end. Values that are not finite leave a gap. Without ``fancy`` all is ASCII.
    With ``log`` a row up is a factor, and what is not above 0 leaves a gap too.
    """
    if log:
        series = {name: (xs, list(map(_exponent, ys))) for name, (xs, ys) in series.items()}
    frame = _frame(series)
    if frame is None:
        return ["(no numbers to plot)"]
    dots = 4 if fancy else 1
    ticks = _power_ticks(frame, height, dots) if log else _y_ticks(frame, height, dots)
    gutter = max(map(len, ticks.values()))
    names = [terminal.clip(terminal.show(name), max(width // 3, 4)) for name in series]
    columns = max(width - gutter - 3 - max(map(terminal.display_width, names), default=0), 8)
    canvas = _Canvas(columns, height, fancy)
    ends = [_draw(canvas, number, points, frame) for number, points in enumerate(series.values())]
    labels = _labels(names, ends, height)
    lines = []
    for row, picture in enumerate(canvas.rows(colour)):
        axis = ("│┤" if fancy else "|+")[row in ticks]
        number, name = labels.get(row, (0, ""))
        lines.append(f"{ticks.get(row, ''):>{gutter}} {axis}{picture} {_paint(name, number, colour)}".rstrip())
    return lines + _x_axis(frame, gutter, columns, fancy)


class _Frame(Record):
    """The numbers that the edges of the picture stand for."""

    left: float
    right: float
    low: float
    high: float


class _Stroke(Record):
    """All points that fall into one column of dots, without a gap between them."""

    column: int
    first: float
    low: float
    high: float
    last: float


class _Canvas:
    """A grid of character cells, each of 2 x 4 dots in braille or of one mark in ASCII."""

    def __init__(self, columns: int, rows: int, fancy: bool) -> None:
        self._fancy = fancy
        self._bits = [[0] * columns for _ in range(rows)]
        self._owner = [[0] * columns for _ in range(rows)]
        self.dots_wide = columns * (2 if fancy else 1)
        self.dots_per_row = 4 if fancy else 1
        self.dots_high = rows * self.dots_per_row

    def line(self, number: int, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Draw for series ``number`` between two dots given as (column from the left, row from the top)."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            self._dot(number, round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps))

    def rows(self, colour: bool) -> Iterator[str]:
        for bits, owners in zip(self._bits, self._owner, strict=True):
            runs = groupby(zip(bits, owners, strict=True), key=lambda cell: cell[1])
            yield "".join(_paint("".join(self._mark(*cell) for cell in cells), owner, colour) for owner, cells in runs)

    def _dot(self, number: int, x: int, y: int) -> None:
        row, column = (y // 4, x // 2) if self._fancy else (y, x)
        self._bits[row][column] |= _DOTS[y % 4][x % 2]
        self._owner[row][column] = number

    def _mark(self, bits: int, owner: int) -> str:
        if not bits:
            return " "
        return chr(_BRAILLE + bits) if self._fancy else _ASCII_MARKS[owner % len(_ASCII_MARKS)]


def _thinned(values: Sequence[float], width: int) -> Sequence[float]:
    """At most ``width`` values: of each stretch the one farthest from the mean, so that no peak is lost."""
    if len(values) <= width:
        return values
    mean = sum(value / len(values) for value in values if math.isfinite(value))
    edges = [len(values) * step // width for step in range(width + 1)]
    stretches = [values[start:end] for start, end in pairwise(edges)]
    return [max(stretch, key=lambda v: abs(v - mean) if math.isfinite(v) else -1.0) for stretch in stretches]


def _range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)


def _share(value: float, low: float, high: float) -> float:
    """The position of the value between low and high, 0 to 1. A flat line runs through the middle."""
    # Halved first: the distance between two very large numbers is not finite.
    return (value / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.5


def _frame(series: Mapping[str, Points]) -> _Frame | None:
    spans = [(_range(xs), _range(ys)) for xs, ys in series.values() if any(map(math.isfinite, ys))]
    if not spans:
        return None
    return _Frame(
        min(x[0] for x, _ in spans),
        max(x[1] for x, _ in spans),
        min(y[0] for _, y in spans),
        max(y[1] for _, y in spans),
    )


def _y_ticks(frame: _Frame, height: int, dots: int) -> dict[int, str]:
    """Labels by row of cells, each ``dots`` high, where that value is drawn.

    At round numbers about every second row; the extremes themselves where none would fit.
    """
    step = _round_step((frame.high / 2 - frame.low / 2) * 3 / max(height - 1, 1))
    if step == 0:
        return {_row(value, frame, height * dots) // dots: f"{value:.4g}" for value in (frame.low, frame.high)}
    first, last = math.ceil(frame.low / step), math.floor(frame.high / step)
    values = [step * count for count in range(first, last + 1)]
    if len(values) < 2:
        values = [frame.low, frame.high]
        step /= 10
    return {_row(value, frame, height * dots) // dots: _tick_text(value, step, frame) for value in values}


def _power_ticks(frame: _Frame, height: int, dots: int) -> dict[int, str]:
    from holdfast.present.drawing.axes import powers

    return {_row(value, frame, height * dots) // dots: label for value, label in powers(frame.low, frame.high)}


def _exponent(value: float) -> float:
    return math.log10(value) if math.isfinite(value) and value > 0 else math.nan


def _round_step(step: float) -> float:
    """The next number up of the form 1, 2 or 5 times a power of ten; 0 where there is none."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next((power * digit for digit in (1, 2, 5) if power * digit >= step), power * 10)


def _row(value: float, frame: _Frame, height: int) -> int:
    return round((1 - _share(value, frame.low, frame.high)) * (height - 1))


def _tick_text(value: float, step: float, frame: _Frame) -> str:
    largest = max(abs(frame.low), abs(frame.high))
    if step > 1e-5 and largest < 1e6:
        return f"{value + 0.0:.{max(-math.floor(math.log10(step)), 0)}f}"
    return f"{value + 0.0:.{max(math.floor(math.log10(largest)) - math.floor(math.log10(step)), 0)}e}"


def _draw(canvas: _Canvas, number: int, points: Points, frame: _Frame) -> int | None:
    """Draw one series; return the row of cells its last point is in, None if it has no point."""

    def row(value: float) -> int:
        return _row(value, frame, canvas.dots_high)

    before: _Stroke | None = None
    end = None
    for stroke in _strokes(points, frame, canvas.dots_wide):
        if stroke is not None:
            canvas.line(number, (stroke.column, row(stroke.low)), (stroke.column, row(stroke.high)))
            end = row(stroke.last) // canvas.dots_per_row
            if before is not None:
                canvas.line(number, (before.column, row(before.last)), (stroke.column, row(stroke.first)))
        before = stroke
    return end


def _strokes(points: Points, frame: _Frame, dots: int) -> Iterator[_Stroke | None]:
    """The points gathered by column of dots, None for a gap. A million points make no more strokes than columns."""
    column = -1
    held: list[float] = []
    for x, y in zip(*points, strict=False):
        if not (math.isfinite(x) and math.isfinite(y)):
            here = -1
        else:
            here = round(_share(x, frame.left, frame.right) * (dots - 1))
        if here != column:
            if held:
                yield _Stroke(column, held[0], min(held), max(held), held[-1])
            if here == -1:
                yield None
            column, held = here, []
        if here != -1:
            held.append(y)
    if held:
        yield _Stroke(column, held[0], min(held), max(held), held[-1])


def _labels(names: Sequence[str], ends: Sequence[int | None], height: int) -> dict[int, tuple[int, str]]:
    """Names by row, each as near to the end of its line as the others allow; none once rows run out."""
    free = set(range(height))
    placed = {}
    for number, (name, end) in enumerate(zip(names, ends, strict=True)):
        if end is None or not free:
            continue
        row = min(free, key=lambda candidate: (abs(candidate - end), candidate))
        free.remove(row)
        placed[row] = (number, name)
    return placed


def _x_axis(frame: _Frame, gutter: int, columns: int, fancy: bool) -> list[str]:
    corner, dash = "└─" if fancy else "+-"
    left, right = f"{frame.left:.6g}", f"{frame.right:.6g}"
    numbers = left if left == right else f"{left}{right:>{max(columns - len(left), len(right) + 1)}}"
    return [f"{'':>{gutter}} {corner}{dash * columns}", f"{'':>{gutter}}  {numbers}"]


def _paint(text: str, number: int, colour: bool) -> str:
    if not colour or not text.strip():
        return text
    return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m"
