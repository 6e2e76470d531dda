"""Axis ticks at round numbers (pure)."""

from __future__ import annotations

import math
import sys

_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


def numbers(low: float, high: float, most: int = 8) -> list[tuple[float, str]]:
    """Round numbers from low to high with their labels; both ends where none fits in between."""
    step = _round_step((high / 2 - low / 2) * 2 / max(most - 1, 1))
    if step == 0:
        return [(low, f"{low:.6g}")]
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [step * count for count in range(first, last + 1)]
    return [(value, _label(value, step)) for value in values] or [(value, f"{value:.6g}") for value in (low, high)]


def _power(exponent: float) -> str:
    """Of ten; beyond what a number can hold, an axis may still have a mark."""
    return f"{10.0**exponent:.4g}" if exponent < sys.float_info.max_10_exp else f"1e+{exponent:.0f}"


def powers(low: float, high: float) -> list[tuple[float, str]]:
    """The same for exponents of ten: every power, or every few; in between 2 and 5 where there are hardly any."""
    first, last = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    every = max(1, math.ceil((last - first) / 8))
    digits = (1, 2, 5) if high - low <= 2.2 else (1,)
    values = [power + math.log10(digit) for power in range(first, last + 1, every) for digit in digits]
    inside = [value for value in values if low - 1e-9 <= value <= high + 1e-9]
    return [(value, _power(value)) for value in inside or (low, high)]


def moments(length: float) -> list[tuple[float, str]]:
    """Round times from 0 to so many seconds, at most eleven of them."""
    step = next((step for step in _TIMES if length / step <= 10), math.ceil(length / 604800 / 10) * 604800)
    return [(moment, _moment(moment)) for moment in range(0, int(length) + 1, step)]


def _round_step(step: float) -> float:
    """The next number up of the form 1, 2 or 5 times a power of ten; 0 where there is none."""
    if step <= 0 or not math.isfinite(step):
        return 0.0
    power = 10.0 ** math.floor(math.log10(step))
    return next((power * digit for digit in (1, 2, 5) if power * digit >= step * 0.999), power * 10)


def _label(value: float, step: float) -> str:
    if value and (abs(value) >= 1e6 or step < 1e-5):
        return f"{value:.6g}"
    return f"{value + 0.0:.{max(-math.floor(math.log10(step) + 1e-9), 0)}f}"


def _moment(seconds: int) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    if seconds > 60:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes}:{rest:02} min"
    return f"{seconds} s"
