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
        ("a: b: 1", [("b", 1)]),
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


def test_log_with_endless_names_and_lines_is_bounded(tmp_path: Path) -> None:
    lines = b"".join(b"name%d: 1\n" % number for number in range(1000))
    assert len(_read(tmp_path, lines, b"x" * 10_000_000 + b" loss: 1\n").by_name) == 500
