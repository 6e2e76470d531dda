"""``history list`` with conditions, orders and columns; ``history metrics``; what a spreadsheet gets."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.present.csv_table import as_csv

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = """
import sys, holdfast
rate = float(sys.argv[2])
for step in range(4):
    holdfast.log("Accuracy", rate * step, step=step)
holdfast.log("note", "=1+1")
holdfast.log("bad", float("-inf"))
"""


@pytest.fixture
def runs(desk: Desk) -> Desk:
    desk.script(SCRIPT)
    for rate in ("0.1", "0.3", "0.2"):
        assert desk.submit("train.py", "--lr", rate).code == 0
    return desk


def test_runs_are_chosen_ordered_and_cut(runs: Desk) -> None:
    words = ("history", "list", "--where", "Accuracy > 0.5 and target = 'local'", "--sort", "-Accuracy")
    assert [record["run_number"] for record in runs.holdfast(*words).json] == [2, 3]
    assert [record["run_number"] for record in runs.holdfast(*words, "--limit", "1", "--all").json] == [2]
    whole = runs.holdfast(*words, "--limit", "1").json
    assert whole == [runs.listed("2")]


def test_without_options_the_list_is_what_it_was(runs: Desk) -> None:
    listed = runs.holdfast("history", "list").json
    assert listed == [runs.listed(number) for number in ("3", "2", "1")]
    assert listed == runs.holdfast("history", "list", "--where", "run_number > 0").json


def test_columns_in_every_form(runs: Desk) -> None:
    words = ("history", "list", "--columns", "run_number,lr,Accuracy.min,note", "--sort", "lr", "--limit", "2", "-o")
    assert runs.holdfast(*words, "json").json == [
        {"Accuracy.min": 0.0, "lr": 0.1, "note": "=1+1", "run_number": 1},
        {"Accuracy.min": 0.0, "lr": 0.2, "note": "=1+1", "run_number": 3},
    ]
    assert runs.holdfast(*words, "tsv").text == "1\t0.1\t0.0\t=1+1\n3\t0.2\t0.0\t=1+1\n"
    assert runs.holdfast(*words, "csv").text == "run_number,lr,Accuracy.min,note\n1,0.1,0.0,'=1+1\n3,0.2,0.0,'=1+1\n"
    assert runs.holdfast(*words, "table").text.split()[:4] == ["run_number", "lr", "Accuracy.min", "note"]


def test_mistakes_are_told(runs: Desk) -> None:
    refused = runs.holdfast("history", "list", "--where", "Accuracy > 0.5 and target = local")
    assert (refused.code, refused.out) == (2, b"")
    lines = refused.err.splitlines()
    assert lines[0].startswith("ERROR: expected a number, 'text', true or false, found 'local'")
    marked = next(number for number, line in enumerate(lines) if line.strip() == "^")
    assert lines[marked - 1][lines[marked].index("^") :] == "local"
    assert "'local'" in lines[-1]
    for words in (("--limit", "many"), ("--limit", "-1"), ("--sort", "Acuracy"), ("--columns", "")):
        assert runs.holdfast("history", "list", *words).code == 2, words


def test_metrics_of_a_run(runs: Desk) -> None:
    found = {row["name"]: row for row in runs.holdfast("history", "metrics", "-r", "2").json}
    assert list(found) == ["Accuracy", "note", "bad"]
    assert found["Accuracy"] | {"last": 0, "max": 0, "best": 0} == {
        "name": "Accuracy",
        "points": 4,
        "last": 0,
        "min": 0.0,
        "max": 0,
        "best": 0,
        "first_step": 0,
        "last_step": 3,
    }
    assert found["Accuracy"]["best"] == found["Accuracy"]["max"] == pytest.approx(0.9)


def test_points_of_a_metric(runs: Desk) -> None:
    text = runs.holdfast("history", "metrics", "-r", "1", "--name", "Accuracy", "-o", "csv").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"]
    assert [float(row["value"]) for row in rows] == [0.1 * step for step in range(4)]
    assert all(row["time_utc"].endswith("+00:00") for row in rows)
    points = runs.holdfast("history", "metrics", "-r", "1", "--name", "Accuracy").json
    assert [(row["step"], row["value"]) for row in points] == [(step, 0.1 * step) for step in range(4)]
    assert runs.holdfast("history", "metrics", "--name", "bad", "-o", "csv").text.endswith(",-inf\n")
    assert runs.holdfast("history", "metrics", "--name", "bad").json[0]["value"] == "-inf"
    missing = runs.holdfast("history", "metrics", "--name", "acuracy")
    assert missing.code == 2
    assert "Accuracy" in missing.err


def test_a_long_series_is_thinned(desk: Desk) -> None:
    desk.script("import holdfast\nfor n in range(5000): holdfast.log('x', 9.0 if n == 1234 else n / 1e6)")
    desk.submit("train.py")
    rows = desk.holdfast("history", "metrics", "--name", "x", "--points", "100").json
    assert 50 <= len(rows) <= 100
    assert max(row["value"] for row in rows) == 9.0
    assert desk.holdfast("history", "metrics", "--name", "x", "--points", "few").code == 2


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_becomes_a_formula(text: str) -> None:
    told = as_csv([{"a": text, text: 1}])
    rows = list(csv.reader(io.StringIO(told, newline="")))
    assert rows == [["'" + text, "a"], ["1", "'" + text]] or rows == [["a", "'" + text], ["'" + text, "1"]]


def test_csv_reads_back_to_what_it_was() -> None:
    value: list[dict[str, Any]] = [
        {"a": 'say "x", y\nz', "b": -0.5, "c": None, "d": True, "e": [1, "b"], "f": 10**20},
        {"a": "é,"},
    ]
    first, second = csv.DictReader(io.StringIO(as_csv(value), newline=""))
    assert first == {
        "a": value[0]["a"],
        "b": "-0.5",
        "c": "",
        "d": "true",
        "e": json.dumps([1, "b"]),
        "f": "1" + "0" * 20,
    }
    assert second["a"] == "é,"


def test_every_command_agrees_on_the_best_value(desk: Desk) -> None:
    lines = ("import holdfast", "for step, value in enumerate((0.5, 0.25, 0.75, 0.625)):")
    names = ("latency", "preferred_acc")
    desk.script("\n".join((*lines, *(f"    holdfast.log({name!r}, value, step=step)" for name in names))))
    ended = desk.submit("train.py")
    assert "latency 0.25 (best) · preferred_acc 0.75 (best)" in ended.err
    assert desk.submit("train.py").code == 0
    expected = {"latency": 0.25, "preferred_acc": 0.75}
    metrics = desk.holdfast("history", "metrics", "-r", "1").json
    assert {row["name"]: row["best"] for row in metrics} == expected
    listed = desk.holdfast("history", "list", "--columns", "latency.best,preferred_acc.best", "--limit", "1").json
    assert listed == [{f"{name}.best": value for name, value in expected.items()}]
    compared = desk.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "json").json
    rows = {row["name"]: row["values"] for section in compared["sections"] for row in section["rows"]}
    assert {name: rows[f"{name} (best)"] for name in names} == {name: [value] * 2 for name, value in expected.items()}


def test_metrics_whose_best_is_unknown_are_shown_by_their_last_value(desk: Desk) -> None:
    desk.script(
        "import holdfast\nfor step in range(3):\n"
        "    holdfast.log('lr', 0.1 / (step + 1))\n    holdfast.log('epoch_s', 3.0 - step)\n"
        "    holdfast.log('acc', 0.5)"
    )
    assert "acc 0.5 · lr 0.03333 · epoch_s 1 ·" in desk.submit("train.py").err
