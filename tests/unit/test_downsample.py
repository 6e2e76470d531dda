"""A long series made small: peaks stay, and what is no number is passed over."""

from __future__ import annotations

import math
import random
import struct
from array import array

from holdfast.metrics.downsample import places
from holdfast.metrics.values import Series


def series(values: list[float]) -> Series:
    return Series("loss", array("q", range(len(values))), array("Q", range(len(values))), array("d", values))


def test_a_short_series_is_given_whole() -> None:
    assert list(places(series([3.0, math.nan, 1.0]), 1)) == [0, 1, 2]


def test_no_peak_is_lost() -> None:
    values = [0.5] * 100_000
    values[12_345], values[77_777] = 9.0, -9.0
    found = places(series(values), 100)
    assert len(found) <= 400
    assert found == sorted(found)
    assert {0, 12_345, 77_777, 99_999} <= set(found)


def test_what_is_no_number_is_passed_over() -> None:
    values = [math.nan] * 1000 + [1.0, math.inf, 2.0] + [math.nan] * 997
    assert set(places(series(values), 2)) == {1000, 1002}


def test_values_of_several_kinds() -> None:
    mixed = Series("mixed", range(10), range(10), [1, "a", True, None, 5.0, -2, [1], 3, 4, 0])
    assert list(places(mixed, 1)) == [0, 4, 5, 9]


def test_arrays_of_any_doubles_give_what_a_plain_search_gives() -> None:
    whole = struct.unpack("d", b"\x01\x02\x03\x04\x05\x06\x07\x08")[0]
    shifted = struct.unpack("2d", b"\x00" * 4 + b"\x01\x02\x03\x04\x05\x06\x07\x08" + b"\x00" * 4)
    odd = [math.nan, -math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, whole, *shifted]
    chance = random.Random(7)
    for _ in range(300):
        values = [chance.choice(odd) if chance.random() < 0.2 else chance.uniform(-2, 2) for _ in range(40)]
        if chance.random() < 0.5:
            values = [value for value in values if math.isfinite(value)] + [whole, *shifted]
        as_list = Series("loss", range(len(values)), range(len(values)), list(values))
        assert list(places(series(values), 3)) == list(places(as_list, 3))


def test_series_of_four_points_for_each_part_is_given_whole() -> None:
    assert list(places(series([float(value % 3) for value in range(8)]), 2)) == list(range(8))
    assert list(places(series([5.0, 1.0, 9.0, 3.0, 4.0, 4.0, 4.0, 4.0, 8.0]), 2)) == [0, 1, 2, 3, 4, 8]
    assert list(places(series([1.0] * 9), 2)) == [0, 3, 4, 8]


def test_numbers_that_share_bytes_are_found_where_they_are() -> None:
    inner = struct.unpack("d", struct.pack("d", -7.25)[4:] + struct.pack("d", -7.25)[:4])[0]
    values = [inner, inner, 0.5, -7.25, 0.25, 0.5]
    assert list(places(series(values), 1)) == sorted({0, values.index(max(values)), 3, 5})
