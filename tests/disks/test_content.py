"""Whatever a script writes is kept as it is: any bytes, any numbers, many files; and none of it takes much memory."""

from __future__ import annotations

import math
import os
import pty
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST
from disks.peak import cost_of
from holdfast.metrics import reader

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

MB = 1_000_000
ODD = {
    "random": random.Random(54).randbytes(MB),
    "zeros": bytes(200_000),
    "escapes": b"\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x1b]8;;http://x\x07\n" * 1000,
    "returns": b"10%\r20%\r100%\n" * 1000 + b"\r",
    "half characters": "é€😀".encode()[:-2] * 1000,
    "no end": b"a line without its end",
}


@pytest.mark.parametrize("name", ODD)
def test_any_bytes_come_out_as_they_went_in(desk: Desk, tmp_path: Path, name: str) -> None:
    said = tmp_path / "said"
    said.write_bytes(ODD[name])
    desk.script(f"import sys; sys.stdout.buffer.write(open({str(said)!r}, 'rb').read())")
    attached = desk.submit("train.py")
    assert attached.code == 0
    assert ODD[name] in attached.out
    assert desk.holdfast("logs").out == ODD[name]
    assert desk.holdfast("history", "info", "-a", "driver_log").out == ODD[name]
    assert (desk.attempt() / "log").read_bytes() == ODD[name]
    for lines in (0, 1, 7):
        expected = ODD[name].split(b"\n")
        if not expected[-1]:
            expected[-2:] = [expected[-2] + b"\n"] if len(expected) > 1 else expected
        tail = b"\n".join(expected[len(expected) - lines :]) if lines else b""
        assert desk.holdfast("logs", "--tail", str(lines)).out == tail


@pytest.mark.parametrize("name", ODD)
def test_a_terminal_is_not_made_to_do_tricks(desk: Desk, tmp_path: Path, name: str) -> None:
    said = tmp_path / "said"
    said.write_bytes(ODD[name])
    desk.script(f"import sys; sys.stdout.buffer.write(open({str(said)!r}, 'rb').read())")
    desk.submit("train.py")
    shown = _on_a_terminal(desk, "logs")
    for trick in (b"\x1b]", b"\x1b[2J", b"\x00", b"\x07", b"\x1bP"):
        assert trick not in shown
    if name == "escapes":
        assert b"\x1b[31mred\x1b[0m" in shown


def test_every_point_is_there(desk: Desk) -> None:
    """Not a number, infinite, steps that repeat and go back, and names by the thousand."""
    desk.script(
        "import holdfast\n"
        "from math import inf, nan\n"
        "for i in range(50_000): holdfast.log('loss', (i, nan, inf, -inf)[i % 4], step=i % 7)\n"
        "for i in range(50_000): holdfast.log('name %d' % (i % 1000), float(i), step=-i)\n"
    )
    assert desk.submit("train.py").code == 0
    found = reader.read_dir(str(desk.attempt() / "metrics"))
    assert found.problems == ()
    loss = found.by_name["loss"]
    assert list(loss.steps) == [i % 7 for i in range(50_000)]
    numbers = [value for value in loss.values if isinstance(value, (int, float))]
    assert numbers[0::4] == [float(i) for i in range(0, 50_000, 4)]
    assert all(math.isnan(value) for value in numbers[1::4])
    assert set(numbers[2::4]) == {math.inf}
    assert set(numbers[3::4]) == {-math.inf}
    assert len(found.by_name) == 1001
    for name in range(1000):
        series = found.by_name[f"name {name}"]
        assert list(series.values) == [float(i) for i in range(name, 50_000, 1000)]
        assert list(series.steps) == [-i for i in range(name, 50_000, 1000)]
    record = desk.record()
    assert record["loss"] is None
    assert record["name 999"][-1] == 49_999


def test_a_long_log_takes_no_more_memory_than_a_short_one(desk: Desk, tmp_path: Path) -> None:
    """150 MB through an attached submit and through logs; a gigabyte is in the soak."""
    desk.script(
        "import os, sys\n"
        "for size in (0, 150_000_000):\n"
        "    if sys.argv[1] != str(size): continue\n"
        "    while size:\n"
        "        size -= os.write(1, b'x' * 99 + b'\\n' if size % 1000 else (b'y' * 999 + b'\\n') * 100)\n"
    )
    out = tmp_path / "out"
    small = [cost_of(desk, out, "submit", "-c", "local", "train.py", "0").megabytes]
    small += [cost_of(desk, out, "logs").megabytes, cost_of(desk, out, "logs", "--tail", "5").megabytes]
    large = [cost_of(desk, out, "submit", "-c", "local", "train.py", "150000000")]
    large += [cost_of(desk, out, "logs")]
    assert out.stat().st_size == 150 * MB
    large += [cost_of(desk, out, "logs", "--tail", "5")]
    print(small, large)
    assert [cost.code for cost in large] == [0, 0, 0]
    for before, after in zip(small, large, strict=True):
        assert after.megabytes < before + 20
    out.unlink()
    (desk.attempt() / "log").unlink()


def test_a_thousand_outputs_are_kept_listed_and_brought_home(desk: Desk, tmp_path: Path) -> None:
    desk.script(
        "import os\n"
        "for folder in range(20):\n"
        "    os.makedirs('outputs/%d' % folder)\n"
        "    for name in range(50): open('outputs/%d/%d' % (folder, name), 'w').write(str(name))\n"
    )
    assert desk.submit("train.py").code == 0
    found = desk.record()["outputs"]
    assert (found["files"], found["bytes"]) == (1000, 20 * sum(len(str(name)) for name in range(50)))
    there = tmp_path / "there"
    assert desk.holdfast("history", "download", "-d", str(there)).code == 0
    assert len([path for path in (there / "outputs").rglob("*") if path.is_file()]) == 1000
    assert desk.holdfast("store", "verify").code == 0


def _on_a_terminal(desk: Desk, *words: str) -> bytes:
    ours, theirs = pty.openpty()
    with subprocess.Popen([HOLDFAST, *words], cwd=desk.project, env={**desk.env, "TERM": "xterm"}, stdout=theirs):
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:
            pass  # how a terminal reports that its writer is gone
    os.close(ours)
    return shown
