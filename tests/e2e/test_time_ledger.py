"""Where the time of a local run went, with and without a command that followed it to its end."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

import managed
from conftest import Desk, eventually
from lab.server import serve
from managed import manage, requirements
from timing import SLEEPS, check_ledger, check_sum


def test_a_run_here(desk: Desk) -> None:
    desk.script(SLEEPS)
    found = check_ledger(desk, "-c", "local")
    assert 2 <= found["parts"]["run"] < found["wall_s"]
    assert found["parts"]["ship"] is None
    card = desk.holdfast("info", "-o", "table").text
    assert "from the command to its end" in card
    (row,) = [line.split() for line in card.splitlines() if line.startswith("  run ")]
    assert set(row[-1]) <= set("█▏▎▍▌▋▊▉#")
    shares = [line.split()[3] for line in card.splitlines() if line[2:3].isalpha() and "%" in line]
    assert 95 <= sum(int(share.rstrip("%")) for share in shares) <= 105


def test_a_failed_run_in_another_store(desk: Desk, tmp_path: Path) -> None:
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "box.compute").write_text(f"type: local\nroot: {tmp_path}/other\npricePerHour: 36\n")
    desk.trust("box")
    desk.script(SLEEPS + "open('outputs/model', 'w').write('x' * 1000)\nraise SystemExit(3)\n")
    found = check_ledger(desk, "-t", "box", code=3)
    assert found["parts"]["ship"] > 0
    price = desk.holdfast("info", "-o", "json").json["run_price"]
    assert price["price_per_hour"] == 36
    assert found["parts"]["run"] <= price["hours"] * 3600 <= found["wall_s"]
    assert price["price"] == pytest.approx(price["hours"] * 36, rel=0.01)
    assert "price      0.0" in desk.holdfast("info", "-o", "table").text
    assert found["parts"]["fetch"] > 0


def test_an_environment_that_is_built(desk: Desk) -> None:
    manage(desk)
    desk.script("import tinypip\n" + SLEEPS)
    with serve(managed.index().path) as index:
        requirements(desk, index.url, "tinydep")
        result = desk.submit("-o", "json", "train.py")
    assert result.code == 0, result.err
    found = result.json["ledger"]
    check_sum(found)
    (started,) = [event for event in desk.events() if event["type"] == "started"]
    assert found["parts"]["environment"] > started["environment_ns"] / 1e9 > 0.1
    assert found["parts"]["start"] < found["parts"]["environment"]


@pytest.mark.parametrize("watched", [True, False])
def test_a_run_whose_command_left(desk: Desk, watched: bool) -> None:
    desk.script(SLEEPS)
    began = time.monotonic()
    assert desk.submit("--detach", "train.py").code == 0
    if watched:
        assert desk.holdfast("logs", "-f").code == 0
    desk.wait_for_end()
    took = time.monotonic() - began
    found = desk.record()["ledger"]
    check_sum(found)
    assert not found["whole"]
    assert 2 <= found["parts"]["run"] <= found["wall_s"] <= took
    assert found["parts"]["begin"] > 0
    assert "as far as measured" in desk.holdfast("info", "-o", "table").text


def test_a_run_whose_command_was_killed(desk: Desk) -> None:
    desk.script(SLEEPS)
    with desk.start("submit", "-c", "local", "train.py", stdout=subprocess.DEVNULL) as process:
        eventually(lambda: desk.home.joinpath("runs").exists() and b"started" in _events(desk))
        process.send_signal(signal.SIGKILL)
    desk.wait_for_end()
    found = desk.record()["ledger"]
    check_sum(found)
    assert not found["whole"]
    assert found["parts"]["run"] >= 2


def _events(desk: Desk) -> bytes:
    return b"".join(path.read_bytes() for path in desk.home.glob("runs/*/a1/events.jsonl"))
