"""Curves and their axes: round numbers, nothing outside the picture, gaps where there is no number."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.present import terminal_plot
from holdfast.present.drawing import axes, png, svg
from holdfast.present.drawing.curves import COLOURS, WIDTH, Curve, Panel, picture
from holdfast.present.drawing.shapes import Line, Words

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def curves(*points: tuple[float, float], log: bool = False, over_time: bool = False) -> list[Line]:
    drawn = picture([Panel("loss", (Curve("run 1", 0, points),))], title="", log=log, over_time=over_time)
    return [shape for shape in drawn.shapes if isinstance(shape, Line) and shape.colour == COLOURS[0]]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0.08, 0.91, ["0.2", "0.4", "0.6", "0.8"]),
        (-1.5, 2.4, ["-1", "0", "1", "2"]),
        (0, 1_000_000, ["0", "200000", "400000", "600000", "800000", "1e+06"]),
        (5, 5, ["5"]),
    ],
)
def test_numbers_along_an_edge_are_round(low: float, high: float, labels: list[str]) -> None:
    assert [label for _, label in axes.numbers(low, high)] == labels


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (-3, 0.4, ["0.001", "0.01", "0.1", "1"]),
        (-1, 0.2, ["0.1", "0.2", "0.5", "1"]),
        (0.31, 0.32, ["2.042", "2.089"]),
        (-40, 0, ["1e-40", "1e-35", "1e-30", "1e-25", "1e-20", "1e-15", "1e-10", "1e-05", "1"]),
    ],
)
def test_powers_of_ten(low: float, high: float, labels: list[str]) -> None:
    assert [label for _, label in axes.powers(low, high)] == labels


def test_a_gap_divides_a_curve_and_a_lonely_point_is_seen() -> None:
    parts = curves((0, 1), (1, 2), (2, math.nan), (3, 2), (4, math.inf), (5, 1), (6, 1))
    assert [len(part.points) for part in parts] == [2, 1, 2]
    assert parts[1].width > parts[0].width


def test_powers_leave_out_what_is_not_above_zero() -> None:
    parts = curves((0, 1), (1, 0.1), (2, 0), (3, -5), (4, 0.01), (5, 0.001), log=True)
    assert [len(part.points) for part in parts] == [2, 2]
    heights = [y for part in parts for _, y in part.points]
    steps = [after - before for before, after in pairwise(heights)]
    assert steps == pytest.approx([steps[0]] * 3)
    assert curves((0, -1), (1, 0), log=True) == []


def test_a_panel_without_numbers_says_so() -> None:
    drawn = picture([Panel("loss", ())], title="t")
    assert "no numbers" in [shape.text for shape in drawn.shapes if isinstance(shape, Words)]


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=30), st.booleans(), st.booleans())
def test_any_numbers_stay_inside(points: list[tuple[float, float]], log: bool, over_time: bool) -> None:
    if over_time:
        points = [(abs(x) % 1e7, y) for x, y in points]
    panel = Panel("<&\x00>", (Curve("é" * 200, 0, tuple(sorted(points))), Curve("b", 9, tuple(points))))
    drawn = picture([panel], title="x" * 500, log=log, over_time=over_time)
    inside = [point for line in drawn.shapes if isinstance(line, Line) for point in line.points]
    assert all(0 <= x <= WIDTH and 0 <= y <= drawn.height for x, y in inside)
    ElementTree.fromstring(svg.render(drawn))


def test_many_runs_have_a_legend_of_several_rows() -> None:
    many = tuple(Curve(f"run {number} of a long name", number, ((0, number),)) for number in range(30))
    drawn = picture([Panel("loss", many)], title="")
    words = [shape for shape in drawn.shapes if isinstance(shape, Words) and shape.text.startswith("run ")]
    assert len(words) == 30
    assert len({word.y for word in words}) > 3
    assert max(word.x + len(word.text) * 7.2 for word in words) <= WIDTH
    assert png.render(drawn).startswith(b"\x89PNG")


def test_a_terminal_draws_by_powers_too() -> None:
    xs = list(map(float, range(5)))
    lines = terminal_plot.chart({"loss": (xs, [1.0, 0.1, 0.01, 0.0, 0.001])}, 40, 10, fancy=False, log=True)
    ticks = {line.split("+")[0].strip() for line in lines[:-2] if "+" in line.split("*")[0]}
    assert ticks == {"1", "0.1", "0.01", "0.001"}
    assert terminal_plot.chart({"loss": (xs, [-1.0] * 5)}, 40, 10, log=True) == ["(no numbers to plot)"]


def test_labels_below_a_million_have_all_their_digits() -> None:
    assert (axes._label(999_999.5, 0.5), axes._label(1e6, 1.0)) == ("999999.5", "1e+06")


def test_axis_of_a_picture_shows_steps_unless_time_is_asked_for() -> None:
    panels = [Panel("loss", (Curve("run 1", 0, ((0.0, 1.0), (3600.0, 2.0))),))]
    by_steps = picture(panels, title="")
    assert by_steps == picture(panels, title="", over_time=False)
    assert by_steps != picture(panels, title="", over_time=True)
