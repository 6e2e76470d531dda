"""Clocks that are a day off, or are set during a run: order by sequence, durations from the monotonic clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually

if TYPE_CHECKING:
    from conftest import Desk

WAITING = """
import os, sys, time
print('up', flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
"""
DAY_S = 86400


def _clock(**said: str) -> dict[str, str]:
    libraries = [
        *Path("/usr/lib").glob("*/faketime/libfaketime.so.1"),
        *Path("/usr/lib").glob("faketime/libfaketime.so.1"),
    ]
    if not libraries:
        pytest.skip("NOT TESTED: libfaketime sets the clock")
    plain = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
    return {"LD_PRELOAD": str(libraries[0]), **plain, **said}


def test_runs_are_in_the_order_they_were_begun_whatever_the_clock_said(desk: Desk) -> None:
    desk.script("import time; time.sleep(0.05)")
    for skew in ("+1d", "-1d", "+0"):
        assert desk.submit("train.py", env=_clock(FAKETIME=skew)).code == 0
    records = desk.holdfast("history", "list", "-o", "json").json
    created = [record["created_utc"] for record in records]
    assert created != sorted(created, reverse=True), "the clocks did differ"
    for words in (("history", "list"), ("history", "list", "--all")):
        assert [record["run_number"] for record in desk.holdfast(*words, "-o", "json").json] == [3, 2, 1]
    assert desk.record("last")["run_number"] == 3
    assert [_seconds(record["duration"]) > 0.05 for record in records] == [True] * 3
    assert max(_seconds(record["duration"]) for record in records) < 60


@pytest.mark.parametrize("skew", ["+1d", "-1d"])
def test_a_client_whose_clock_is_off_sees_how_long_a_run_has_really_been_going(desk: Desk, skew: str) -> None:
    desk.script(WAITING)
    desk.submit("--no-wait", "train.py", str(desk.project / "go"))
    eventually(lambda: desk.record()["status"] == "Running")
    words = ("history", "info", "-o", "json")
    seen = [_seconds(desk.holdfast(*words, env=_clock(FAKETIME=skew)).json["duration"]) for _ in range(2)]
    assert 0 < seen[0] < seen[1] < 60
    assert desk.holdfast("store", "prune", env=_clock(FAKETIME=skew)).code == 0
    (desk.project / "go").touch()
    assert desk.wait_for_end()["status"] == "Completed"


@pytest.mark.parametrize("step", [DAY_S, -DAY_S])
def test_a_clock_that_is_set_during_the_run_changes_neither_order_nor_length(
    desk: Desk, tmp_path: Path, step: int
) -> None:
    told = tmp_path / "clock"
    told.write_text("+0\n")
    go = tmp_path / "go"
    desk.script(WAITING)
    clock = _clock(FAKETIME_TIMESTAMP_FILE=str(told))
    desk.submit("--no-wait", "--timeout", "1h", "train.py", str(go), env=clock)
    eventually(lambda: desk.record()["status"] == "Running")
    beside = tmp_path / "beside"
    beside.write_text(f"{step:+d}\n")
    beside.rename(told)
    go.touch()
    record = desk.wait_for_end()
    assert record["status"] == "Completed", record
    assert 0 < _seconds(record["duration"]) < 60
    events = [json.loads(line) for line in (desk.attempt() / "events.jsonl").read_text().splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert abs((events[-1]["wall_ns"] - events[0]["wall_ns"]) / 1e9 - step) < 60, "the clock did step"
    assert [event["mono_ns"] for event in events] == sorted(event["mono_ns"] for event in events)
    assert desk.submit("train.py", str(go), env=clock).code == 0
    assert [row["run_number"] for row in desk.holdfast("history", "list", "-o", "json").json] == [2, 1]


def _seconds(duration: str) -> float:
    hours, minutes, seconds = duration.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
