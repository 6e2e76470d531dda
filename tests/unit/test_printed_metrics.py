"""Numbers that a script prints, as ``submit --scalars`` reads them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.metrics import reader
from holdfast.runner.run.printed_metrics import PrintedMetrics, numbers_in

if TYPE_CHECKING:
    from holdfast.metrics.reader import Metrics

API = Path(holdfast.__file__).parent / "script_api"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("loss: 0.23", [("loss", 0.23)]),
        ("step=10 acc=0.9", [("step", 10), ("acc", 0.9)]),
        ("Epoch 3/10 - loss: 1e-3, val/acc : 97.5% (lr=.5)", [("loss", 0.001), ("val/acc", 97.5), ("lr", 0.5)]),
        ("\x1b[32mloss: -2\x1b[0m", [("loss", -2)]),
        ("100%|###| 10/10 [00:01<00:00, loss=0.5, acc=+1.]", [("loss", 0.5), ("acc", 1)]),
        ("loss: inf", [("loss", math.inf)]),
        ("12:30:45 INFO: started http://host:8080/x?a=1&b=2", []),
        ("version: 1.2.3 at: 10:30 date=2026-11-16 id: 0x1f size: 3MB", []),
        ("epoch: 3/10", []),
        ("INFO:root:loss=0.5 acc=0.9", [("loss", 0.5), ("acc", 0.9)]),
        ("WARNING:my.module:epoch: 3, loss: 0.5", [("epoch", 3), ("loss", 0.5)]),
        ("INFO:server:8080", []),
        ("W1118 03:59:53.433000 21544 torch/distributed/run.py:982] ***", []),
        ("2026-11-18 [trainer.py:88] INFO (main.cpp:33) kernel.cu:7 loss: 0.5", [("loss", 0.5)]),
        ("train.py:45: UserWarning: lr=0.1", []),
        ("KeyError: 5", []),
        ("MeanSquaredError: 0.5", [("MeanSquaredError", 0.5)]),
        ("TensorBoard at localhost:6006 (gpu1.example.com:22, ada@gpu1.lab:22)", []),
        ("acc@1: 76.1 test/acc@5=93.0", [("acc@1", 76.1), ("test/acc@5", 93.0)]),
        ("loss:0.5 top1.acc:0.9 step:3 model.py: 3", [("loss", 0.5), ("top1.acc", 0.9), ("step", 3), ("model.py", 3)]),
        ("n=1,000 items", [("n", 1000)]),
        ("Samples: 12,345", [("Samples", 12345)]),
        ("loss: 0,25 sizes=1,2,3 k=1,5000", []),
        ("{'loss': 0.1234, 'epoch': 1.0}", [("loss", 0.1234), ("epoch", 1.0)]),
        ('{"loss": 0.5,"acc": 1}', [("loss", 0.5), ("acc", 1)]),
        ("train_loss=tensor(0.25)", [("train_loss", 0.25)]),
        ("loss: tensor(0.25, device='cuda:0') acc=np.float64(0.5)", [("loss", 0.25), ("acc", 0.5)]),
        ("weights=tensor([0.25, 1.0])", []),
        ("train:  50%|#####     | 5/10 [00:01<00:01, loss=0.5]", [("loss", 0.5)]),
        ("train:  50% 5/10 [00:01<00:01]", []),
        ("a: b: 1", [("b", 1)]),
        ("Epoch 0 Train loss: 0.5 | Val loss: 0.9", [("Train_loss", 0.5), ("Val_loss", 0.9)]),
        ("train: 1 test: 2 validation  acc=3", [("train", 1), ("test", 2), ("validation_acc", 3)]),
        ("step=" + "9" * 400, [("step", math.inf)]),
        ("", []),
        ("plain words", []),
    ],
)
def test_names_and_numbers_of_a_line(line: str, found: list[tuple[str, float]]) -> None:
    assert numbers_in(line.encode()) == found


def _read(place: Path, *blocks: bytes) -> Metrics:
    site, folder = place / "site", place / "metrics"
    site.mkdir()
    folder.mkdir()
    (site / "holdfast.py").write_bytes((API / "track.py").read_bytes())
    (site / "_holdfast_values.py").write_bytes((API / "values.py").read_bytes())
    printed = PrintedMetrics(str(folder).encode(), str(site).encode())
    for block in (*blocks, b""):
        printed.feed(block)
    return reader.read_dir(str(folder))


def test_steps_hold_until_the_next_and_blocks_may_end_anywhere(tmp_path: Path) -> None:
    text = b"loss: 3\nstep: 5\nloss: 2\nstep=6 loss=1.5\rval_loss: 0.5\nloss: 1"
    found = _read(tmp_path, *(text[at : at + 1] for at in range(len(text)))).by_name
    loss = found["loss"]
    assert (list(loss.steps), list(loss.values)) == ([0, 5, 6, 6], [3, 2, 1.5, 1])
    assert list(found["val_loss"].steps) == [6]
    assert "step" not in found


def test_fractional_epochs_of_transformers_are_a_metric_also_where_they_are_whole(tmp_path: Path) -> None:
    lines = [b"{'loss': 0.%d, 'epoch': %d.%d}\n" % (4 - half, half // 2, half % 2 * 5) for half in range(1, 4)]
    metrics = _read(tmp_path, *lines).by_name
    assert list(metrics["epoch"].values) == [0.5, 1.0, 1.5]
    assert (list(metrics["loss"].steps), list(metrics["loss"].values)) == ([0, 1, 2], [0.3, 0.2, 0.1])


def test_log_with_endless_names_and_lines_is_bounded(tmp_path: Path) -> None:
    lines = b"".join(b"name%d: 1\n" % number for number in range(1000))
    assert len(_read(tmp_path, lines, b"x" * 10_000_000 + b" loss: 1\n").by_name) == 500


@pytest.mark.parametrize("cut", [7, 4090, 4096, 9000])
def test_only_the_beginning_of_a_long_line_counts_however_it_arrives(tmp_path: Path, cut: int) -> None:
    padding = b"k" * 4080
    line = b"a: 1 " + padding + b" loss: 0.25 " + padding + b"my_acc: 0.5\n"
    whole = b"a: 1 " + b"k" * 4084 + b" b: 0.25\n"  # 4,096 bytes would end at 0.2
    metrics = _read(tmp_path, line[:cut], line[cut:], whole).by_name
    assert {name: list(series.values) for name, series in metrics.items()} == {"a": [1, 1]}


def test_name_with_two_values_in_one_line_gets_neither_and_the_rest_is_read(tmp_path: Path) -> None:
    metrics = _read(tmp_path, b"loss: 1\n", b"a loss: 2, b loss: 3, acc=4\n", b"loss: 5 loss: 5\n")
    assert {name: list(series.values) for name, series in metrics.by_name.items()} == {"loss": [1, 5], "acc": [4]}


def test_huge_number_does_not_end_the_reading(tmp_path: Path) -> None:
    metrics = _read(tmp_path, b"loss=0.5\nhuge=" + b"9" * 400 + b"\nstep=" + b"9" * 30 + b"\nloss=0.25\n")
    assert list(metrics.by_name["loss"].values) == [0.5, 0.25]


def test_numbers_in_a_warning_of_several_lines_are_no_metrics(tmp_path: Path) -> None:
    warning = (
        b"/env/sklearn/_logistic.py:473: ConvergenceWarning: lbfgs failed after 200 iterations (status=1):\n"
        b"STOP: TOTAL NO. OF ITERATIONS REACHED LIMIT\n\n"
        b"Increase the number of iterations to improve the convergence (max_iter=200).\n"
        b"    https://scikit-learn.org/stable\n"
        b"  n_iter_i = _check_optimize_result(\n"
    )
    without_source = warning.rpartition(b"  n_iter_i")[0]
    metrics = _read(tmp_path, b"loss: 1\n", warning, b"Epoch 3 loss: 2\n", without_source, b"loss: 3\n").by_name
    assert {name: list(series.values) for name, series in metrics.items()} == {"loss": [1, 2, 3]}
