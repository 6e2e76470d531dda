from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.present.terminal import display_width
from holdfast.present.terminal_plot import can_draw, chart, sparkline

NUMBERS = st.lists(st.floats(), max_size=30)


def test_sparkline() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 20) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, math.nan, -7], 20) == "█ ▁"
    assert sparkline([5, 5, 5], 20) == "▅▅▅"
    assert sparkline([0, 7], 20, fancy=False) == "_#"
    assert sparkline([], 20) == ""


def test_sparkline_keeps_a_single_peak_of_a_million() -> None:
    values = [0.0] * 1_000_000
    values[123_456] = 1.0
    assert sparkline(values, 10) == "▁█▁▁▁▁▁▁▁▁"


def test_a_rising_line() -> None:
    assert chart({"acc": ([0, 1, 2, 3], [0, 1, 2, 3])}, 24, 4) == [
        "  │             ⣀⠤⠒⠉ acc",
        "2 ┤        ⢀⡠⠔⠒⠉",
        "  │    ⣀⠤⠔⠊⠁",
        "0 ┤⣀⠤⠒⠉",
        "  └─────────────────",
        "   0               3",
    ]


def test_ascii_marks_tell_series_apart() -> None:
    lines = chart({"up": ([0, 9], [0, 3]), "down": ([0, 9], [3, 0])}, 30, 4, fancy=False)
    assert "".join(lines).isascii()
    assert lines[0].startswith("  |++++ ")
    assert lines[0].endswith(" **** up")
    assert lines[3].startswith("0 +**** ")
    assert lines[3].endswith(" ++++ down")


def test_a_gap_where_there_is_no_number() -> None:
    ys = [1.0] * 10 + [math.nan] * 30 + [1.0] * 10
    (line,) = chart({"x": (range(50), ys)}, 40, 1, fancy=False)[:1]
    left, gap, right = line.partition("    ")
    assert left.count("*") > 3
    assert gap
    assert right.strip(" x").count("*") > 3


def test_a_constant_runs_through_the_middle_and_one_point_is_a_dot() -> None:
    constant = chart({"x": ([0, 1], [5, 5])}, 20, 3)
    assert [line[:3] for line in constant[:3]] == ["  │", "5 ┤", "  │"]
    assert "⠒" in constant[1] or "⠤" in constant[1]
    point = "".join(chart({"x": ([7], [0.3])}, 20, 3)[:3])
    assert sum(0x2800 < ord(char) <= 0x28FF for char in point) == 1


def test_chart_without_numbers_says_so() -> None:
    assert chart({}, 40, 5) == chart({"x": ([0], [math.nan])}, 40, 5) == ["(no numbers to plot)"]


def test_a_million_points_keep_their_peaks() -> None:
    ys = [0.0] * 1_000_000
    ys[500_000] = 8.0
    lines = chart({"x": (range(1_000_000), ys)}, 40, 5)
    assert [len(line.split()[-1].lstrip("┤│")) for line in lines[:4]] == [1, 1, 1, 1]
    assert len({len(line) for line in lines[:4]}) == 1


def test_colour_only_when_asked_and_round_each_line() -> None:
    series = {"a": ([0, 1], [0, 1]), "b": ([0, 1], [1, 0])}
    assert "\x1b" not in "".join(chart(series, 40, 5))
    coloured = "".join(chart(series, 40, 5, colour=True))
    assert "\x1b[36ma\x1b[0m" in coloured
    assert "\x1b[33mb\x1b[0m" in coloured


def test_a_hostile_name_is_escaped() -> None:
    assert "\x1b" not in "".join(chart({"a\x1b[2J": ([0, 1], [0, 1])}, 40, 5))


@pytest.mark.parametrize(
    ("ys", "labels"),
    [
        ([1e-5, 1e-4], ["0.00010", "0.00005"]),
        ([-50, 50], ["50", "0", "-50"]),
        ([1e6 + 0.001, 1e6 + 0.003], ["1.000000003e+06", "1.000000002e+06", "1.000000001e+06"]),
        ([-1.7e308, 1.7e308], ["1.7e+308", "-1.7e+308"]),
    ],
)
def test_labels_are_round_and_distinct(ys: list[float], labels: list[str]) -> None:
    lines = chart({"x": ([0, 1], ys)}, 60, 5)
    assert [line.split()[0] for line in lines if "┤" in line] == labels


@given(
    st.dictionaries(st.text(max_size=30), st.tuples(NUMBERS, NUMBERS), max_size=4), st.integers(1, 12), st.booleans()
)
def test_any_numbers_make_a_chart_that_fits(
    series: dict[str, tuple[list[float], list[float]]], height: int, fancy: bool
) -> None:
    lines = chart(series, 80, height, fancy=fancy)
    assert len(lines) in (1, height + 2)
    assert max(map(display_width, lines)) <= 80


def test_what_an_encoding_can_draw() -> None:
    assert can_draw(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert not can_draw(io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
