"""Downsamples a long series for drawing and keeps its peaks (pure)."""

from __future__ import annotations

import sys
from array import array
from math import isfinite
from struct import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.metrics.values import Series

_EXPONENT = 7 if sys.byteorder == "little" else 0  # of the bytes of a double


def places(series: Series, parts: int) -> Sequence[int]:
    """Where to look: of each of so many stretches the first, the least, the greatest and the last number.

    What is not a finite number is passed over. A series of no more than ``4 * parts`` points is given whole.
    """
    values = series.values
    if len(values) <= 4 * parts:
        return range(len(values))
    positions: list[int] = []
    for part in range(parts):
        start, end = len(values) * part // parts, len(values) * (part + 1) // parts
        positions += [start + at for at in _telling(values[start:end])]
    return positions


def _telling(stretch: Sequence[object]) -> list[int]:
    if isinstance(stretch, array):
        data = stretch.tobytes()
        if _is_plain(data):
            numbers: list[float] = stretch.tolist()
            extremes = _position(data, min(numbers)), _position(data, max(numbers))
            return sorted({0, *extremes, len(numbers) - 1})
    finite = {at: value for at, value in enumerate(stretch) if type(value) in (int, float) and isfinite(value)}  # type: ignore[arg-type]
    at, values = list(finite), list(finite.values())
    ends = {0, values.index(min(values)), values.index(max(values)), len(values) - 1} if values else set()  # type: ignore[type-var]
    return [at[position] for position in sorted(ends)]


def _is_plain(data: bytes) -> bool:
    """Whether no double is NaN, infinite or close to the greatest: by the byte with most of the exponent."""
    exponents = data[_EXPONENT::8]
    return b"\x7f" not in exponents and b"\xff" not in exponents


def _position(data: bytes, number: float) -> int:
    """Where this double is first; bytes are searched faster than numbers."""
    wanted = pack("d", number)
    at = data.find(wanted)
    while at % 8:  # the end of one number and the beginning of the next
        at = data.find(wanted, at + 1)
    return at // 8
