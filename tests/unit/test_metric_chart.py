"""Logged series as curves: which are drawn, and their points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import UsageError
from holdfast.metrics.reader import Metrics
from holdfast.metrics.values import Series
from holdfast.present import metric_chart
from holdfast.store.runs import Run

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 10**9


def series(name: str, *values: Any) -> Series:
    return Series(name, range(len(values)), [100 * SECOND + at * SECOND for at in range(len(values))], values)


def metrics(*logged: Series) -> Metrics:
    return Metrics({one.name: one for one in logged}, ())


def run(*events: dict[str, Any], number: int | None = 7) -> Run:
    return Run("0123456789abcdef" * 2, "/none", {"run_number": number}, list(events), [])


def test_run_without_a_number_is_called_by_its_uid() -> None:
    assert metric_chart.label(run()) == "run 7"
    assert metric_chart.label(run(number=None)) == "run 01234567"


def test_series_with_several_numbers_are_drawn() -> None:
    logged = [metrics(series("one", 1), series("text", "a", "b"), series("nan", math.nan, math.nan))]
    with pytest.raises(UsageError, match="no numeric series"):
        metric_chart.names(logged, ())
    logged.append(metrics(series("loss", 2, 1), series("one", 1, 2)))
    assert metric_chart.names(logged, ()) == ["one", "loss"]


def test_shape_is_decided_by_the_first_hundred_values() -> None:
    assert not metric_chart.has_shape(None)
    assert metric_chart.has_shape(series("late", *["x"] * 99, 1))
    assert not metric_chart.has_shape(series("late", *["x"] * 100, 1))


def test_at_most_eight_series_are_drawn_unless_named() -> None:
    many = [metrics(*(series(f"m{number}", 1, 2) for number in range(10)))]
    assert metric_chart.names(many, ()) == [f"m{number}" for number in range(8)]
    assert metric_chart.names(many, ["m9", "m0", "m9"]) == ["m9", "m0"]


def test_unknown_name_is_refused_with_near_ones() -> None:
    logged = [metrics(*(series(f"m{number}", 1) for number in range(12)), series("val_loss", 1))]

    def hint(name: str, runs: list[Metrics]) -> str:
        with pytest.raises(UsageError, match=f"no metric '{name}'") as caught:
            metric_chart.names(runs, ["m1", name] if runs[0].by_name else [name])
        return caught.value.hint

    assert hint("loss", logged) == "it has: val_loss, m0, m1, m2, m3, m4, m5, m6, m7, m8"
    assert hint("zzzz", logged) == "it has: m0, m1, m2, m3, m4, m5, m6, m7, m8, m9"
    assert hint("m99", logged).startswith("it has: m9, ")
    assert hint("x", [metrics()]) == "no metrics were logged"


def test_points_are_steps_or_seconds_since_the_script_started() -> None:
    logged = series("loss", 2, "broken", 1.5)
    by_step = metric_chart.points(logged, run(), over_time=False)
    assert by_step[::2] == ((0.0, 2.0), (2.0, 1.5))
    assert by_step[1][0] == 1.0
    assert math.isnan(by_step[1][1])
    started = {"type": "started", "wall_ns": 90 * SECOND}
    for events, first in (
        ([{"type": "queued", "wall_ns": 1}, started], 10.0),
        ([], 0.0),
        ([{"type": "started", "wall_ns": 101 * SECOND}], 0.0),
        ([{"type": "started", "wall_ns": "90"}], 0.0),
    ):
        points = metric_chart.points(logged, run(*events), over_time=True)
        assert [time for time, _ in points] == [first, first + 1, first + 2]


def test_panel_has_a_curve_for_each_run_that_has_the_metric() -> None:
    runs = [run(number=1), run(number=2), run(number=3)]
    logged = [metrics(series("loss", 1, 2)), metrics(), metrics(series("loss", 3, 4))]
    (panel,) = metric_chart.panels(runs, logged, ["loss"])
    assert panel.title == "loss"
    assert [(curve.name, curve.number) for curve in panel.curves] == [("run 1", 0), ("run 3", 2)]
    assert panel.curves[1].points == ((0.0, 3.0), (1.0, 4.0))


def test_problems_of_a_metrics_folder_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a1" / "metrics"
    folder.mkdir(parents=True)
    (folder / "1.m").write_bytes(b"not metrics at all, in no version of the format" * 4)
    found = Run("0" * 32, str(tmp_path), {}, [], [])
    assert [one.by_name for one in metric_chart.read([found])] == [{}]
    assert capsys.readouterr().err.startswith("WARNING: ")
