"""Downsamples a long series for drawing and keeps its peaks (pure)."""

from __future__ import annotations

from array import array
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.metrics.reader import Series


def places(series: Series, parts: int) -> Sequence[int]:
    """Where to look: of each of so many stretches the first, the least, the greatest and the last number.

    What is not a finite number is passed over. A series of no more than ``4 * parts`` points is given whole.
    """
    values = series.values
    if len(values) <= 4 * parts:
        return range(len(values))
    found: list[int] = []
    for part in range(parts):
        start, end = len(values) * part // parts, len(values) * (part + 1) // parts
        found += [start + at for at in _telling(values[start:end])]
    return found


def _telling(stretch: Sequence[object]) -> list[int]:
    if isinstance(stretch, array):
        numbers: list[float] = stretch.tolist()
        if isfinite(sum(numbers)):
            return _ends_and_extremes(numbers)
    finite = {at: value for at, value in enumerate(stretch) if type(value) in (int, float) and isfinite(value)}  # type: ignore[arg-type]
    at = list(finite)
    return [at[place] for place in _ends_and_extremes(list(finite.values()))] if at else []  # type: ignore[arg-type]


def _ends_and_extremes(numbers: list[float]) -> list[int]:
    return sorted({0, numbers.index(min(numbers)), numbers.index(max(numbers)), len(numbers) - 1})
