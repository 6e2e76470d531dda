"""Charts as whole pictures: every line, tick and label where it belongs.

``HOLDFAST_REWRITE_GOLDEN=1 pytest tests/unit/test_chart_pictures.py`` rewrites the expected pictures; look at them.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.present.drawing import axes, svg
from holdfast.present.drawing.curves import Curve, Panel, picture
from holdfast.present.terminal_plot import chart, sparkline

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[1] / "golden" / "charts"
STEPS = tuple(range(0, 60, 3))
LOSS = tuple(2.5 * 0.9**step + 0.1 for step in STEPS)
WAVE = tuple(math.sin(step / 5) for step in STEPS)


def points(ys: tuple[float, ...], xs: tuple[float, ...] = STEPS) -> tuple[tuple[float, float], ...]:
    return tuple(zip(xs, ys, strict=True))


def drawn(*panels: Panel, title: str = "", over_time: bool = False, log: bool = False) -> str:
    return svg.render(picture(panels, title=title, over_time=over_time, log=log)).decode()


def plotted(series: dict[str, tuple[float, ...]], width: int, height: int, **options: bool) -> str:
    return "\n".join(chart({name: (STEPS, ys) for name, ys in series.items()}, width, height, **options)) + "\n"


def many_curves() -> str:
    curves = tuple(Curve(f"run {number} with a name", number, points(WAVE)[number:]) for number in range(10))
    gap = Curve("n" * 61, 11, ((0, 1.0), (5, 2.0), (6, math.nan), (7, 3.0), (8, math.inf), (9, 1.0), (12, 0.5)))
    return drawn(Panel("wave", curves), Panel("p" * 101, (gap,)), title="t" * 90)


def short_titles() -> str:
    curve = Curve("n" * 60, 8, points(LOSS))
    return drawn(Panel("p" * 100, (curve,)), Panel("nothing", ()), title="t" * 83)


def over_time() -> str:
    seconds = tuple(60.0 * step for step in STEPS)
    return drawn(Panel("loss", (Curve("run 1", 0, points(LOSS, seconds)),)), over_time=True)


def logarithmic() -> str:
    mixed = tuple(value - 0.5 for value in LOSS)
    few, none = Curve("run 1", 0, points(mixed)), Curve("run 2", 1, points((-1.0, 0.0), (1, 2)))
    return drawn(Panel("loss", (few,)), Panel("never", (none,)), title="log", log=True)


def flat() -> str:
    far = (1.7e308, -1.7e308)
    return drawn(
        Panel("constant", (Curve("run 1", 0, points((3.0, 3.0), (0, 1))),)),
        Panel("zero", (Curve("run 1", 0, points((0.0,), (5,))),)),
        Panel("far", (Curve("run 1", 0, points(far, (0, 1))),)),
    )


MINUTES = ("1 min", "1:15 min", "1:30 min", "1:45 min")
SMALL = tuple(1 + value / 1e7 for value in WAVE)
TEXTS: dict[str, Callable[[], str]] = {
    "fancy.txt": lambda: plotted({"loss": LOSS, "a long name of a metric": WAVE}, 60, 10),
    "plain.txt": lambda: plotted({"loss": LOSS, "wave": WAVE}, 50, 9, fancy=False),
    "coloured.txt": lambda: plotted({f"m{n}": tuple(v + n for v in WAVE) for n in range(8)}, 50, 7, colour=True),
    "marks.txt": lambda: plotted({f"m{n}": tuple(v + n for v in WAVE) for n in range(10)}, 40, 9, fancy=False),
    "logarithmic.txt": lambda: plotted({"loss": tuple(v - 0.3 for v in LOSS)}, 50, 8, log=True),
    "few-powers.txt": lambda: plotted({"loss": LOSS}, 30, 6, log=True, fancy=False),
    "large.txt": lambda: plotted({"big": tuple(4e6 * value for value in WAVE)}, 44, 7),
    "small-steps.txt": lambda: plotted({"small": SMALL}, 44, 7),
    "one-row.txt": lambda: plotted({"a": LOSS, "b": WAVE}, 30, 1),
    "two-rows.txt": lambda: plotted({"a": tuple(value + 0.05 for value in SMALL)}, 30, 2, fancy=False),
    "narrow.txt": lambda: plotted({"loss": LOSS}, 8, 4),
    "gaps.txt": lambda: plotted({"x": (*WAVE[:8], *[math.nan] * 4, *WAVE[12:]), "none": (math.inf,) * 20}, 40, 6),
    "gap-first.txt": lambda: plotted({"none": (math.nan,) * 20, "x": WAVE, "y": LOSS}, 40, 6, fancy=False),
    "many-curves.svg": many_curves,
    "short-titles.svg": short_titles,
    "over-time.svg": over_time,
    "logarithmic.svg": logarithmic,
    "flat.svg": flat,
}


@pytest.mark.parametrize("name", TEXTS)
def test_chart_is_drawn_as_expected(name: str) -> None:
    golden = GOLDEN / name
    found = TEXTS[name]()
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_no_golden_without_a_chart() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(TEXTS)


def test_sparkline_keeps_the_value_farthest_from_the_mean() -> None:
    values = [5.0, 5.0, 9.0, 5.0, 5.0, 1.0, 5.0, math.nan, 5.0, 5.0, math.inf, math.nan]
    assert sparkline(values, 12) == "▅▅█▅▅▁▅ ▅▅  "
    assert sparkline(values, 6) == "▅█▁▅▅ "
    assert sparkline(values, 5) == "▅█▁▅▅"
    assert sparkline([-3.0, 1.0, 1.0, 1.0], 2) == "▁█"
    assert sparkline([0.0, 50.0, 100.0], 3, between=(0.0, 200.0)) == "▁▃▅"
    assert sparkline([0.0, 50.0, 100.0], 3, fancy=False, between=(0.0, 100.0)) == "_=#"


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 7, 8, "0 1 2 3 4 5 6 7"),
        (0, 7.1, 8, "0 2 4 6"),
        (0, 1, 1, "0 1"),
        (0, 20, 2, "0 20"),
        (0.1, 0.2, 2, "0.1 0.2"),
        (0.31, 0.32, 1, "0.31 0.32"),
        (-0.002, 0.001, 4, "-0.002 -0.001 0.000 0.001"),
        (1_000_000, 1_000_003, 4, "1e+06 1e+06 1e+06 1e+06"),
        (999_998, 999_999, 2, "999998 999999"),
        (0, 2e-6, 3, "0.000000 1e-06 2e-06"),
        (0, 2e-5, 3, "0.00000 0.00001 0.00002"),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, most: int, labels: str) -> None:
    assert " ".join(label for _, label in axes.numbers(low, high, most)) == labels


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 2.2, "1 2 5 10 20 50 100"),
        (0, 2.3, "1 10 100"),
        (0, 8, "1 10 100 1000 1e+04 1e+05 1e+06 1e+07 1e+08"),
        (0, 9, "1 100 1e+04 1e+06 1e+08"),
        (0.1, 0.2, "1.259 1.585"),
        (0.1, 1.1, "2 5 10"),
        (307, 308.5, "1e+307 2e+307 5e+307 1e+308 1e+308"),
    ],
)
def test_ticks_of_a_logarithmic_axis(low: float, high: float, labels: str) -> None:
    assert " ".join(label for _, label in axes.powers(low, high)) == labels


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (0, ["0 s"]),
        (10, [f"{second} s" for second in range(11)]),
        (11, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]),
        (150, ["0 s", "15 s", "30 s", "45 s", *MINUTES, "2 min", "2:15 min", "2:30 min"]),
        (
            9000,
            ["0 s", "15 min", "30 min", "45 min", "1 h", "75 min", "90 min", "105 min", "2 h", "135 min", "150 min"],
        ),
        (3 * 86400, ["0 s", "12 h", "1 d", "36 h", "2 d", "60 h", "3 d"]),
        (604800 * 12, ["0 s", *(f"{day} d" for day in range(14, 85, 14))]),
    ],
)
def test_ticks_of_a_time_axis(length: float, labels: list[str]) -> None:
    assert [label for _, label in axes.moments(length)] == labels


STEPS_OF_TIME = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    172800,
    604800,
)


@pytest.mark.parametrize("step", STEPS_OF_TIME)
def test_time_axis_has_at_most_eleven_ticks(step: int) -> None:
    assert [moment for moment, _ in axes.moments(step * 10)] == list(range(0, step * 10 + 1, step))
