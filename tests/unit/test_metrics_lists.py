"""A list of numbers that was logged in one call is a series; everything else stays one value."""

from __future__ import annotations

import math

import pytest

from holdfast.metrics import reader
from holdfast.metrics.lines import Value
from holdfast.metrics.values import Series, spread


def _logged(*values: Value) -> Series:
    return Series("x", list(range(len(values))), [7] * len(values), list(values))


def test_list_of_numbers_is_a_value_per_step_with_extremes() -> None:
    series = spread(_logged([0.5, 2, 1.25]))
    assert list(series.values) == [0.5, 2.0, 1.25]
    assert list(series.steps) == [0, 1, 2]
    assert list(series.times) == [7, 7, 7]
    digest = reader.digest(series)
    assert (digest.points, digest.last, digest.least, digest.greatest) == (3, 1.25, 0.5, 2.0)


def test_whole_numbers_stay_whole() -> None:
    assert spread(_logged([3, 1])).values == [3, 1]


def test_missing_numbers_of_a_list_are_gaps() -> None:
    first, second = spread(_logged([0.5, None])).values
    assert first == 0.5
    assert isinstance(second, float)
    assert math.isnan(second)


@pytest.mark.parametrize(
    "values",
    [([1.0],), ([],), ([1, "a"],), ([True, False],), ([None, None],), ([[1], [2]],), ([1, 2], [3, 4]), (1.0,), ("a",)],
)
def test_other_values_are_left_as_they_are(values: tuple[Value, ...]) -> None:
    series = _logged(*values)
    assert spread(series) is series
