"""What takes too long for every push: a gigabyte of log, a million points, 100,000 files, 10,000 flipped bits."""

from __future__ import annotations

import math
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from disks.crowd import assert_nobody_lost, crowd
from disks.flips import flip_bits, sound_store
from disks.peak import cost_of
from holdfast.metrics import reader

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

GB = 1_000_000_000
CLIENT_MB = 200
OUTPUTS = 100_000


def test_ten_thousand_flipped_bits_are_found(desk: Desk) -> None:
    flip_bits(sound_store(desk), 10_000)


def test_a_hundred_submits_and_twenty_readers(desk: Desk) -> None:
    outcome = crowd(desk, submits=100, readers=20)
    print(f"{len(outcome.reads)} answers to readers meanwhile")
    assert_nobody_lost(desk, outcome)


@pytest.mark.parametrize("line", [1000, GB])
def test_a_gigabyte_of_log(desk: Desk, tmp_path: Path, line: int) -> None:
    """In lines of a thousand characters, and in one line alone."""
    block = b"x" * 999_999 + b"x" if line == GB else (b"x" * 999 + b"\n") * 1000
    desk.script(
        f"import os\nfor _ in range(1000):\n    left = {block!r}\n    while left: left = left[os.write(1, left):]\n"
    )
    out = tmp_path / "out"
    costs = {"submit": cost_of(desk, out, "submit", "-c", "local", "train.py")}
    assert out.stat().st_size > GB
    for words in (("logs",), ("logs", "--tail", "10"), ("history", "info", "-a", "driver_log"), ("store", "verify")):
        costs[" ".join(words)] = cost_of(desk, out, *words)
        assert out.stat().st_size == (0 if words[0] == "store" else 10_000 if words[-1] == "10" and line < GB else GB)
    print("\n".join(f"{name}: {cost.megabytes:.0f} MB, {cost.seconds:.1f} s" for name, cost in costs.items()))
    assert {cost.code for cost in costs.values()} == {0}
    assert max(cost.megabytes for cost in costs.values()) < CLIENT_MB
    out.unlink()
    (desk.attempt() / "log").unlink()


def test_a_million_points_under_ten_thousand_names(desk: Desk, tmp_path: Path) -> None:
    desk.script(
        "import holdfast\n"
        "from math import inf, nan\n"
        "for i in range(500_000): holdfast.log('loss', (float(i), nan, inf, -inf)[i % 4], step=i % 7)\n"
        "for i in range(500_000): holdfast.log('name %d' % (i * 7919 % 10_000), float(i), step=-i)\n"
    )
    out = tmp_path / "out"
    costs = {"submit": cost_of(desk, out, "submit", "-c", "local", "train.py")}
    for words in (("history", "list"), ("history", "info", "-o", "json"), ("history", "list", "-o", "json")):
        costs[" ".join(words)] = cost_of(desk, out, *words)
    print("\n".join(f"{name}: {cost.megabytes:.0f} MB, {cost.seconds:.1f} s" for name, cost in costs.items()))
    assert {cost.code for cost in costs.values()} == {0}
    found = reader.read_dir(str(desk.attempt() / "metrics"))
    assert found.problems == ()
    assert len(found.by_name) == 10_001
    assert sum(len(series.values) for series in found.by_name.values()) == 1_000_000
    loss = found.by_name["loss"]
    assert list(loss.steps) == [i % 7 for i in range(500_000)]
    assert sum(isinstance(value, float) and math.isnan(value) for value in loss.values) == 125_000
    for i in range(0, 500_000, 4999):
        assert i in found.by_name[f"name {i * 7919 % 10_000}"].values
    assert max(cost.megabytes for cost in costs.values()) < CLIENT_MB


def test_a_hundred_thousand_outputs(desk: Desk, tmp_path: Path) -> None:
    desk.script(
        "import os\n"
        f"for number in range({OUTPUTS}):\n"
        "    if number % 1000 == 0: os.makedirs('outputs/%d' % (number // 1000))\n"
        "    open('outputs/%d/%d' % (number // 1000, number), 'w').write('%d' % number)\n"
    )
    out = tmp_path / "out"
    there = tmp_path / "there"
    costs = {"submit": cost_of(desk, out, "submit", "-c", "local", "train.py")}
    for words in (
        ("history", "list"),
        ("history", "info", "-o", "json"),
        ("history", "info", "-a", "outputs/99/99999"),
        ("history", "download", "-d", str(there)),
        ("store", "verify"),
    ):
        costs[" ".join(words[:3])] = cost_of(desk, out, *words)
    print("\n".join(f"{name}: {cost.megabytes:.0f} MB, {cost.seconds:.1f} s" for name, cost in costs.items()))
    assert {cost.code for cost in costs.values()} == {0}
    assert desk.record()["outputs"]["files"] == OUTPUTS
    assert sum(len(names) for _, _, names in os.walk(there / "outputs")) == OUTPUTS
    assert max(cost.megabytes for cost in costs.values()) < CLIENT_MB
    for folder in (there, desk.attempt() / "outputs"):
        shutil.rmtree(folder)
