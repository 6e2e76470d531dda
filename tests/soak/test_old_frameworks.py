"""CNTK 2.7 and TensorFlow 1.14 on Python 3.6, from an ordinary project file: big downloads from the public index.

Needs ``~/.pyenv/versions/3.6.*`` (or ``PYTHON36``) and, for CNTK, the library of OpenMPI 3 (Debian: libopenmpi3).
"""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import pytest

from managed import environments, manage
from soak.page import write_section

if TYPE_CHECKING:
    from conftest import Desk

CNTK = """
import cntk, numpy as np
from azureml.logging import get_azureml_logger

np.random.seed(0)
x, y = cntk.input_variable(2), cntk.input_variable(1)
model = cntk.layers.Dense(1)(x)
loss = cntk.squared_error(model, y)
learner = cntk.sgd(model.parameters, cntk.learning_parameter_schedule(0.1))
trainer = cntk.Trainer(model, (loss, None), [learner])
inputs = np.random.rand(64, 2).astype("float32")
logger = get_azureml_logger()
for step in range(20):
    trainer.train_minibatch({x: inputs, y: inputs.sum(1, keepdims=True)})
    logger.log("loss", float(trainer.previous_minibatch_loss_average))
logger.log("framework", "CNTK " + cntk.__version__)
"""
TENSORFLOW = """
import numpy as np, tensorflow as tf
from azureml.logging import get_azureml_logger

np.random.seed(0)
tf.compat.v1.set_random_seed(0)
inputs = np.random.rand(64, 2).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
logger = get_azureml_logger()
for step in range(20):
    logger.log("loss", float(model.train_on_batch(inputs, inputs.sum(1, keepdims=True))))
logger.log("framework", "TensorFlow " + tf.__version__)
"""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("packages", "script", "name"),
    [
        (("cntk==2.7",), CNTK, "CNTK 2.7"),
        (("tensorflow==1.14.0", "protobuf<3.20"), TENSORFLOW, "TensorFlow 1.14.0"),
    ],
)
def test_an_old_framework_takes_training_steps(
    desk: Desk, python36: Path, packages: tuple[str, ...], script: str, name: str
) -> None:
    manage(desk, f"pythonLocation: {python36}")
    desk.script(script)
    lines = "".join(f"  - {package}\n" for package in packages)
    (desk.project / "aml_config" / "conda_dependencies.yml").write_text(f"dependencies:\n- python=3.6\n- pip:\n{lines}")
    assert desk.submit("--no-wait", "train.py").code == 0
    record = desk.wait_for_end(limit=1500)
    assert record["status"] == "Completed", desk.holdfast("logs").text
    assert record["framework"] == name
    assert len(record["loss"]) == 20
    first, *_, last = record["loss"]
    assert last < first
    (row,) = environments(desk)
    text = (
        f"An ordinary `conda_dependencies.yml` with `{', '.join(packages)}`, a managed local target with Python "
        f"{row['python']}: {row['packages']} packages were installed from the public index, the script took 20 "
        f"training steps, and its loss went from {first:.3f} to {last:.3f}."
    )
    write_section(name, fill(text, 120))


@pytest.fixture
def python36() -> Path:
    given = os.environ.get("PYTHON36")
    found = [Path(given)] if given else sorted(Path.home().glob(".pyenv/versions/3.6.*/bin/python"))
    if not found:
        pytest.skip("there is no Python 3.6 here")
    return found[-1]
