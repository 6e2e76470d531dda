"""Whether two runs came out alike, and what of a run is said again."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from holdfast.engine.submit.reproduce import is_of_time, job_again, judge, names_to_judge, variables
from holdfast.errors import UsageError
from holdfast.metrics.reader import Metrics
from holdfast.metrics.values import Series
from holdfast.model import GpuWish, Link
from holdfast.planning import plan_gpu
from holdfast.store.runs import Run

NAN, INF = float("nan"), float("inf")


def logged(**values: Any) -> Metrics:
    return Metrics(
        {name: Series(name, array("q", [0]), array("Q", [0]), [value]) for name, value in values.items()}, ()
    )


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        *((1.0, 1.0, True), (1.0, 1.01, True), (1.0, 1.02, False), (-1.0, 1.0, False), (0.0, 0.0, True)),
        *((0.0, 1e-9, False), (NAN, NAN, True), (NAN, 1.0, False), (1.0, NAN, False), (INF, INF, True)),
        *((INF, 1.0, False), (INF, -INF, False), (3, 3.0, True), (5, None, False), (5, "5", False)),
    ],
)
def test_a_value_is_judged_by_its_share(before: object, after: object, same: bool) -> None:
    [verdict] = judge(logged(x=before), logged(x=after), ["x"], 0.01)
    assert verdict.same is same


def test_a_metric_that_is_gone_is_no_match() -> None:
    [verdict] = judge(logged(x=1.0), logged(y=1.0), ["x"], 1.0)
    assert (verdict.same, verdict.after, verdict.difference) == (False, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("train_time", True), ("fitTime", True), ("epoch_s", True), ("it/s", True), ("samples_per_second", True)),
        *(("seconds", True), ("step_ms", True), ("images/sec", True), ("Throughput", True)),
        *(
            ("loss", False),
            ("Accuracy", False),
            ("times_table", True),
            ("classes", False),
            ("pass", False),
            ("s", False),
        ),
        *(("lifetime_value", False), ("mean_s_score", False)),
    ],
)
def test_what_measures_the_machine_is_known_by_its_name(name: str, expected: bool) -> None:
    assert is_of_time(name) is expected


def test_which_metrics_are_judged() -> None:
    found = logged(loss=0.5, note="text", fit_s=3.0, right=True)
    assert names_to_judge(found, ()) == ["loss", "right"]
    assert names_to_judge(found, ("fit_s",)) == ["fit_s"]
    with pytest.raises(UsageError, match="no metric named 'note'"):
        names_to_judge(found, ("note",))
    assert names_to_judge(logged(fit_s=3.0), ()) == []


def test_values_that_were_not_kept_are_asked_for_again() -> None:
    plan: dict[str, object] = {"env": ["A", "TOKEN"]}
    assert variables(plan, {"A": "1", "OTHER": "x"}, {"TOKEN": "t"}) == {"A": "1", "TOKEN": "t"}
    with pytest.raises(UsageError, match="TOKEN") as error:
        variables(plan, {"A": "1"}, {})
    assert error.value.hint == "-e TOKEN=VALUE"


def test_a_job_says_again_what_the_plan_says() -> None:
    wish = GpuWish(count=2, memory=5, name="A100", shared=True, wait_s=60.0, require=True, grace_s=0.0)
    plan: dict[str, object] = {
        "uid": "u",
        "run_id": "p_1",
        "tree": "0" * 64,
        "argv": ["python", "a/train.py"],
        "script": "a/train.py",
        "links": [{"name": "data", "target": "/big"}],
        "timeout": 7.0,
        "grace": 3.0,
        "max_log": 5000,
        "gpu": plan_gpu(wish, handed_in=False),
    }
    request: dict[str, object] = {"run_id": "p_1", "arguments": ["--lr", "0.1"], "fetch_outputs": "all"}
    job = job_again(Run("u", "", request, [], []), plan, config="c", target="t", env={"A": "1"})
    assert (job.script, job.arguments, job.config, job.target) == ("a/train.py", ("--lr", "0.1"), "c", "t")
    assert job.links == (Link("data", "/big"),)
    assert (job.timeout_s, job.grace_s, job.max_log, job.fetch_outputs) == (7.0, 3.0, 5000, "all")
    assert job.gpu == wish
    assert (job.parent_run_id, job.reproduces, dict(job.env)) == ("p_1", "p_1", {"A": "1"})
