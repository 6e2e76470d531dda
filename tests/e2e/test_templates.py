"""The templates, from ``project create`` to a run in the history."""

from __future__ import annotations

import csv
import pickle
from typing import TYPE_CHECKING

import pytest

from managed import lend_packages, lend_tools, reach_the_network

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


@pytest.fixture(autouse=True)
def _lent(desk: Desk) -> None:
    """The templates name packages of the public index, which are downloaded once for all tests."""
    reach_the_network(desk)
    lend_tools(desk)
    lend_packages(desk)


def create(desk: Desk, template: str) -> Path:
    result = desk.holdfast("project", "create", "--name", "made", "--path", ".", "--template", template)
    assert result.code == 0, result.err
    return desk.project / "made"


@pytest.mark.parametrize("template", ["blank", "digits", "iris-sklearn"])
def test_a_template_runs_as_it_is(desk: Desk, template: str) -> None:
    project = create(desk, template)
    script = "iris_sklearn.py" if template == "iris-sklearn" else "train.py"
    result = desk.submit(script, cwd=project)
    assert result.code == 0, result.text + result.err
    checked = desk.holdfast("check", cwd=project)
    assert checked.code == 0, checked.text + checked.err


def test_iris_logs_what_the_tutorial_shows_and_keeps_its_model(desk: Desk) -> None:
    project = create(desk, "iris-sklearn")
    accuracies = {}
    for rate in ("5", "0.5"):
        desk.submit("iris_sklearn.py", rate, cwd=project)
        record = desk.holdfast("history", "last", cwd=project).json
        assert record["status"] == "Completed"
        assert record["Regularization Rate"] == float(rate)
        accuracies[rate] = record["Accuracy"]
    assert 0.7 < accuracies["5"] < accuracies["0.5"] < 1
    best = "@[?Accuracy != null] | max_by(@, &Accuracy).[run_id, Accuracy]"
    assert best in (project / "README.md").read_text()
    found = desk.holdfast("history", "list", "--query", best, cwd=project).json
    assert found == [record["run_id"], accuracies["0.5"]]
    model = pickle.loads(desk.holdfast("history", "info", "-r", "last", "-a", "outputs/model.pkl", cwd=project).out)
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]


def test_the_flowers_are_those_of_the_bundled_set(desk: Desk) -> None:
    from sklearn.datasets import load_iris

    with (create(desk, "iris-sklearn") / "iris.csv").open(newline="") as source:
        _, *rows = csv.reader(source)
    bundled = load_iris()
    assert [[float(cell) for cell in row[:4]] for row in rows] == bundled.data.tolist()
    assert [row[4] for row in rows] == bundled.target_names[bundled.target].tolist()


def test_a_template_folder_of_ones_own(desk: Desk) -> None:
    mine = desk.home / "templates" / "mine"
    mine.mkdir(parents=True)
    (mine / "README.md").write_text("# My own way\n")
    (mine / "go.py").write_text("print('own template')\n")
    listed = {row["name"]: row["summary"] for row in desk.holdfast("project", "sample", "list").json}
    assert listed["mine"] == "My own way"
    assert {"blank", "digits", "iris-sklearn", "mnist-cntk", "mnist-pytorch", "mnist-tensorflow", "spark-iris"} <= set(
        listed
    )
    for number, template in enumerate(("mine", f"{mine}/")):
        made = desk.holdfast("project", "create", "--name", f"p{number}", "--path", ".", "--template", template)
        assert made.code == 0, made.err
        result = desk.holdfast("submit", "-c", "local", "go.py", cwd=desk.project / f"p{number}")
        assert "own template" in result.text
    refused = desk.holdfast("project", "create", "--name", "p9", "--template", "nope")
    assert refused.code == 2
    assert "digits" in refused.err
    assert desk.holdfast("project", "create", "--name", "p0", "--template", "mine").code == 2
