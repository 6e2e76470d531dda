"""A script in a container logs with tensorboardX, the real one: its values are in the run's own metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from holdfast.metrics import reader

if TYPE_CHECKING:
    from containers.conftest import Seat

pytestmark = pytest.mark.parametrize("ground", ["docker", "podman", "remote-podman"], indirect=True)

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import numpy, os
from tensorboardX import SummaryWriter
with SummaryWriter("logs") as writer:
    for step in range(3):
        writer.add_scalar("loss", 0.5 ** step, step * 10)
    writer.add_image("picture", numpy.zeros((3, 4, 5), dtype="uint8"), 2)
    writer.add_text("note", "hello", 1)
    writer.add_hparams({"lr": 0.5, "opt": "adam"}, {"final": 0.25})
print("wrote", sorted(os.listdir("logs"))[-1][:6])
"""


def test_tensorboard_values_of_a_container_are_recorded(seat: Seat) -> None:
    packages = seat.published(libraries.image_packages(ROOT, libraries.TENSORBOARDX))
    volume = f"dockerArguments: --volume {packages}:{libraries.IMAGE_PACKAGES}:ro"
    for lines in ((volume,), (volume, "sharedVolumes: false")):
        seat.target(*lines)
        result = seat.submit(SCRIPT)
        assert result.code == 0, result
        assert "wrote events\n" in result.text  # what tensorboardX itself writes is there too
        record = seat.desk.record()
        assert (record["loss"], record["note"], record["final"]) == ([1.0, 0.5, 0.25], "hello", 0.25)
        assert record["parameters"] == {"lr": 0.5, "opt": "adam"}
        assert record["picture"]["width"] == 5
        series = reader.read_dir(str(seat.desk.attempt() / "metrics")).by_name
        assert list(series["loss"].steps) == [0, 10, 20]
    result = seat.submit(SCRIPT, "--no-capture")
    assert (result.code, "loss" in seat.desk.record()) == (0, False)
