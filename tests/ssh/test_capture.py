"""A script on a machine over SSH logs with wandb, the real one: its values come home as the run's own metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from holdfast.metrics import reader
from ssh.conftest import Laptop
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
THERE = "/opt/wandb"
SCRIPT = """
import socket, wandb, numpy
with wandb.init(project="p", config={"lr": 0.1}, tags=["base"]) as run:
    for step in range(3):
        run.log({"loss": 1 / (step + 1), "count": step})
    run.log({"picture": wandb.Image(numpy.zeros((4, 5, 3), dtype="uint8"))})
    run.summary["best"] = 0.9
    open("model.txt", "w").write("weights of " + socket.gethostname())
    artifact = wandb.Artifact("model", type="model")
    artifact.add_file("model.txt")
    run.log_artifact(artifact)
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[Lab]:
    """The machine has an environment with wandb."""
    packages = libraries.interpreter(ROOT, libraries.WANDB).parents[2]
    try:
        with Lab(hosts=("gpu1",), shares={THERE: packages}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def lab(machines: Lab) -> Iterator[Lab]:
    yield machines
    machines.reset()


def test_wandb_values_of_a_run_over_ssh_come_home(attached: Laptop) -> None:
    attached.script(SCRIPT)
    python = ("--python", f"{THERE}/venv/bin/python")
    result = attached.holdfast("submit", "-c", "lab1", *python, "train.py")
    assert result.code == 0, result
    assert "holdfast: wandb: there is no login in this run, so wandb works offline" in result.text
    record = attached.record()
    assert (record["loss"], record["count"], record["best"]) == ([1.0, 0.5, 1 / 3], [0, 1, 2], 0.9)
    assert record["parameters"] == {"lr": 0.1}
    assert record["tags"].pop("wandb.run_id")
    assert record["tags"] == {"base": True}
    series = reader.read_dir(str(attached.attempt() / "metrics")).by_name
    assert (list(series["loss"].steps), list(series["picture"].steps)) == ([0, 1, 2], [3])
    assert record["picture"]["width"] == 5
    name = "outputs/artifacts/model/model.txt"
    assert attached.holdfast("history", "info", "-a", name).out == b"weights of gpu1"
    result = attached.holdfast("submit", "-c", "lab1", "--no-capture", *python, "-e", "WANDB_MODE=offline", "train.py")
    assert result.code == 0, result
    assert {"loss", "parameters"}.isdisjoint(key for key, value in attached.record().items() if value)
