"""A target whose store is another one: everything goes the way that a remote machine's will go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually

if TYPE_CHECKING:
    from conftest import Desk


@pytest.fixture
def elsewhere(desk: Desk, tmp_path: Path) -> Path:
    """``local`` with its root elsewhere; returns that root."""
    root = tmp_path / "elsewhere"
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "local.compute").write_text(f"type: local\nroot: {root}\n")
    desk.trust("local")
    return root


def test_objects_go_out_and_log_metrics_and_outputs_come_home(desk: Desk, elsewhere: Path) -> None:
    desk.script(
        "import holdfast, os\n"
        "print(open('data.txt').read())\n"
        "for step in range(100): holdfast.log('loss', 1 / (step + 1), step=step)\n"
        "open('outputs/small.bin', 'wb').write(b's' * 3_000_000)\n"
        "open('outputs/large.bin', 'wb').write(os.urandom(17 * 1024 * 1024))\n"
    )
    (desk.project / "data.txt").write_text("sent along")
    (desk.project / "big.bin").write_bytes(os.urandom(3_000_000))
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert "sent along" in result.text
    uid = desk.record()["uid"]
    there, here = elsewhere / "runs" / uid / "a1", desk.attempt()
    assert len(desk.record()["loss"]) == 100
    for name in ("log", "events.jsonl", "outputs.jsonl", "plan.json", "outputs/small.bin"):
        assert (here / name).read_bytes() == (there / name).read_bytes(), name
    assert not (here / "outputs" / "large.bin").exists()
    assert desk.holdfast("experiment", "return").code == 0
    returned = desk.project / "outputs" / "large.bin"
    assert returned.read_bytes() == (there / "outputs" / "large.bin").read_bytes()
    again = desk.submit("-v", "train.py")
    assert "0 new" in again.err


def test_a_run_that_ended_unwatched_comes_home_with_the_next_command(desk: Desk, elsewhere: Path) -> None:
    desk.script("print('said'); open('outputs/x', 'w').write('kept'); raise SystemExit(3)")
    desk.submit("--no-wait", "train.py")
    eventually(lambda: bool(list(elsewhere.glob("runs/*/a1/outputs.jsonl"))))
    assert desk.wait_for_end()["exit_code"] == 3
    assert desk.holdfast("logs").out == b"said\n"
    assert desk.holdfast("history", "info", "-a", "outputs/x").out == b"kept"


def test_running_run_has_nothing_to_return_and_cancel_reaches_it(desk: Desk, elsewhere: Path) -> None:
    desk.script("import time; print('up', flush=True); time.sleep(600)")
    desk.submit("--no-wait", "train.py")
    eventually(lambda: desk.record()["status"] == "Running")
    returned = desk.holdfast("return")
    assert returned.code == 2, returned
    assert "the run has not ended" in returned.err
    desk.holdfast("cancel")
    assert desk.wait_for_end()["status"] == "Canceled"
    assert desk.holdfast("return").code == 0


def test_a_damaged_output_is_not_taken_home(desk: Desk, elsewhere: Path) -> None:
    desk.script("open('outputs/large.bin', 'wb').write(b'x' * (17 * 1024 * 1024))")
    desk.submit("train.py")
    there = elsewhere / "runs" / desk.record()["uid"] / "a1" / "outputs" / "large.bin"
    there.write_bytes(b"y" * (17 * 1024 * 1024))
    result = desk.holdfast("experiment", "return")
    assert result.code == 74
    assert "damaged in transfer" in result.err
    assert not (desk.attempt() / "outputs" / "large.bin").exists()
    assert not (desk.project / "outputs" / "large.bin").exists()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a//b", "", "nul\0byte"])
def test_names_from_a_target_cannot_leave_the_runs_folder(desk: Desk, elsewhere: Path, name: str) -> None:
    import hashlib
    import json

    desk.script("print(1)")
    desk.submit("train.py")
    row = {"path": name, "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    (desk.attempt() / "outputs.jsonl").write_text(json.dumps(row) + "\n")
    result = desk.holdfast("experiment", "return")
    assert result.code == 74
    assert "not a file name" in result.err
    assert not (desk.project / "outputs").exists()
