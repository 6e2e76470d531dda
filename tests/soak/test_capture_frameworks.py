"""Recording what torch, Lightning, transformers and Keras log: real ones, which are large downloads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import libraries
from holdfast.metrics import reader

ROOT = Path(__file__).resolve().parents[2]
TORCH = """
import torch
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter("logs") as writer:
    for step in range(3):
        writer.add_scalar("loss", torch.tensor(0.5 ** step), step)
        writer.add_scalar("newer", step, step, new_style=True)
    writer.add_image("picture", torch.zeros(3, 4, 5), 1)
    writer.add_text("note", "hello", 1)
    writer.add_hparams({"lr": 0.5, "fast": True}, {"final": 0.25})
"""
LIGHTNING = """
import sys, torch, lightning
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
class Model(lightning.LightningModule):
    def __init__(self, lr=0.5):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, _):
        loss = (self.layer(batch) ** 2).mean()
        self.log("train_loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.hparams.lr)
kinds = {"csv": CSVLogger, "tensorboard": TensorBoardLogger}
loggers = [kinds[name]("logs") for name in sys.argv[1:]]
quiet = dict(enable_progress_bar=False, enable_model_summary=False, accelerator="cpu", log_every_n_steps=4)
data = torch.utils.data.DataLoader(torch.rand(32, 2), batch_size=4)
lightning.Trainer(max_epochs=2, logger=loggers, **quiet).fit(Model(), data)
"""
TRANSFORMERS = """
import torch
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x=None, labels=None):
        result = self.layer(x)
        return {"loss": ((result - labels) ** 2).mean(), "logits": result}
data = [{"x": torch.rand(2), "labels": torch.rand(1)} for _ in range(16)]
arguments = TrainingArguments(
    "out", report_to=["tensorboard"], logging_steps=2, num_train_epochs=2, use_cpu=True, disable_tqdm=True,
    save_strategy="no", per_device_train_batch_size=4)
Trainer(Model(), arguments, train_dataset=data).train()
"""
KERAS = """
import keras, numpy, tensorflow as tf
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = numpy.random.rand(32, 2)
callback = keras.callbacks.TensorBoard("logs")
model.fit(x, x.sum(1), epochs=2, verbose=0, validation_split=0.25, callbacks=[callback])
writer = tf.summary.create_file_writer("more")
@tf.function
def compiled(step):
    tf.summary.scalar("compiled", tf.cast(step, tf.float32) * 2, step=step)
with writer.as_default():
    for step in range(3):
        tf.summary.scalar("eager", 0.5 * step, step=step)
        compiled(tf.constant(step, tf.int64))
    tf.summary.image("picture", numpy.zeros((1, 4, 5, 3)), step=0)
    tf.summary.text("note", "hello", step=0)
"""


def record(place: Path, library: tuple[str, ...], script: str, *arguments: str) -> reader.Metrics:
    site = libraries.make_site(place / "site")
    env = {"PATH": os.environ["PATH"], "HOME": str(place), **libraries.run_variables(place, site)}
    python = libraries.interpreter(ROOT, library)
    command = [str(python), "-W", "ignore", "-c", script, *arguments]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "recorded" not in done.stderr, done.stderr
    return reader.read_dir(str(place / "metrics"))


@pytest.mark.timeout(1200)
def test_summary_writer_of_torch_is_recorded(tmp_path: Path) -> None:
    found = record(tmp_path, libraries.TORCH, TORCH)
    assert list(found.by_name["loss"].values) == [1.0, 0.5, 0.25]
    assert list(found.by_name["newer"].steps) == [0, 1, 2]
    assert found.by_name["note"].values == ["hello"]
    assert {"picture", "final"} <= set(found.by_name)
    assert found.parameters == {"lr": 0.5, "fast": True}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("loggers", [("tensorboard",), ("csv",), ("tensorboard", "csv")])
def test_loggers_of_lightning_are_recorded_once(tmp_path: Path, loggers: tuple[str, ...]) -> None:
    found = record(tmp_path, libraries.TORCH, LIGHTNING, *loggers)
    assert list(found.by_name["train_loss"].steps) == [3, 7, 11, 15]
    assert list(found.by_name["epoch"].values) == [0, 0, 1, 1]
    assert found.parameters == {"lr": 0.5}


@pytest.mark.timeout(1200)
def test_callback_of_transformers_is_recorded(tmp_path: Path) -> None:
    found = record(tmp_path, libraries.TORCH, TRANSFORMERS)
    assert list(found.by_name["train/loss"].steps) == [2, 4, 6, 8]


@pytest.mark.timeout(1200)
def test_callback_of_keras_and_tf_summary_are_recorded(tmp_path: Path) -> None:
    found = record(tmp_path, libraries.KERAS, KERAS)
    assert list(found.by_name["epoch_loss"].steps) == [0, 1]
    assert list(found.by_name["validation/epoch_loss"].steps) == [0, 1]
    assert list(found.by_name["more/eager"].values) == [0.0, 0.5, 1.0]
    assert list(found.by_name["more/compiled"].values) == [0.0, 2.0, 4.0]
    assert found.by_name["more/note"].values == ["hello"]
    assert "more/picture" in found.by_name
