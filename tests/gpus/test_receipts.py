"""What a run did with its GPUs, as it is told afterwards and while it goes on."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, eventually
from fakenvml import GPU

from .conftest import SECOND

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine

WITH_DRIVER = """#!/bin/sh
exec unshare --mount sh -ec '
mount -t tmpfs dev {place}
cd /dev
cp -a null zero full random urandom tty fd stdin stdout stderr ptmx {place}
mkdir {place}/pts {place}/shm
mount --bind pts {place}/pts
mount --bind shm {place}/shm
touch {place}/nvidiactl
mount --move {place} /dev
cd "$OLDPWD"
exec {holdfast} "$@"' sh "$@"
"""
FOREIGN = 4_194_999  # above what Linux gives out, so that no process has it


def test_used(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    script.compute(busy=50)
    pid = script.pid
    eventually(lambda: len(script.series("gpu0.busy")) >= 3, 60)
    script.let_go()
    machine.gpus.tell(GPU, SECOND)
    receipt = machine.desk.wait_for_end(script.number)["gpu"]
    assert receipt["verdict"] == "used"
    card = receipt["gpus"][0]
    assert (card["uuid"], card["given"], card["used"], card["peak_percent"]) == (GPU.uuid, True, True, 50)
    assert card["processes"][0]["pid"] == pid
    assert card["processes"][0]["memory_peak"] == card["memory_peak"] == 3 << 30
    assert 0 < card["busy_s"] < receipt["seconds"]
    assert receipt["samples"] >= 5 * receipt["seconds"]
    assert len(receipt["gpus"]) == 1


def test_the_card_is_told_before_the_first_line_and_the_verdict_last(machine: Machine) -> None:
    machine.desk.script("print('first')\n")
    done = machine.desk.submit("--gpus", "1", "train.py")
    assert done.code == 0, done.err
    lines = done.text.splitlines()
    at = lines.index("first")
    assert lines[at - 5 : at] == [
        "name: NVIDIA A100-SXM4-80GB",
        "major: 8 minor: 0 memoryClockRate (GHz) 1.5930",
        "pciBusID 06c3:00:00.0",
        "Total memory: 80.00GiB",
        "Free memory: 80.00GiB",
    ]
    assert (machine.desk.attempt() / "log").read_text() == "first\n"
    assert "idle" in done.err.splitlines()[-1]
    assert machine.desk.record()["gpu"]["verdict"] == "idle"


def test_a_run_that_only_opens_its_card_has_not_used_it(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    machine.gpus.tell(GPU._replace(processes=((script.pid, 1 << 20, 0),)), SECOND)
    script.await_event("gpu_context")
    script.let_go()
    machine.gpus.tell(GPU, SECOND)
    receipt = machine.desk.wait_for_end(script.number)["gpu"]
    assert receipt["verdict"] == "idle"
    assert "no activity was measured" in receipt["evidence"]


def test_energy_heat_and_what_holds_a_card_back(machine: Machine) -> None:
    cool = GPU._replace(energy=1_000_000, power=100_000, temperature=40)
    machine.gpus.tell(cool, SECOND)
    script = machine.begin("--gpus", "1")
    script.compute(cool._replace(temperature=83))
    machine.gpus.tell(
        cool._replace(energy=1_500_000, temperature=83, processes=((script.pid, 5 << 30, 9),), busy=9),
        SECOND,
        more=["0 throttle 0x24", "0 ecc_corrected 0", "0 ecc_uncorrected 0"],
    )
    seen = len(script.series("gpu0.celsius"))
    eventually(lambda: len(script.series("gpu0.celsius")) > seen + 1, 60)
    script.let_go()
    machine.gpus.tell(cool._replace(energy=1_500_000), SECOND)
    card = machine.desk.wait_for_end(script.number)["gpu"]["gpus"][0]
    assert (card["energy_j"], card["energy_by"], card["celsius_peak"]) == (500, "counter", 83)
    assert math.isclose(card["power_mean_w"], 100, rel_tol=0.01)
    assert set(card["throttled_s"]) == {"heat", "power"}
    assert card["throttled_s"]["heat"] > 0


def test_a_card_off_the_bus(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    script.compute()
    machine.gpus.tell(GPU, SECOND, more=["0 xid 79", "0 lost 1"])
    lost = script.await_event("gpu_lost", 10)
    assert "Xid 79: the GPU has fallen off the bus" in str(lost["why"])
    assert script.await_event("gpu_xid")["xid"] == 79
    record = script.end()
    assert (record["status"], record["exit_code"]) == ("Completed", 0)
    assert record["gpu"]["verdict"] == "lost"
    assert record["gpu"]["lost_after_s"] == record["gpu"]["gpus"][0]["lost_after_s"]
    assert record["gpu"]["gpus"][0]["xids"] == [79]


def test_driver_and_library_of_different_versions(machine: Machine) -> None:
    machine.gpus.tell(GPU, more=["* fail nvmlInit 18"])
    machine.desk.script("print('on it goes')\n")
    machine.desk.script(
        "gpus: {count: all, shared: true}\nFramework: Python\nTarget: local\n", "aml_config/both.runconfig"
    )
    done = machine.desk.holdfast("submit", "-c", "both", "train.py")
    assert done.code == 0, done.err
    assert "restart the machine" in done.err + done.text
    assert machine.desk.record()["gpu"]["verdict"] == "unmeasured"


def test_a_driver_that_stops_answering_costs_the_receipt_and_not_the_run(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    script.compute()
    machine.gpus.tell(GPU, SECOND, more=["0 delay nvmlDeviceGetUtilizationRates 600000"])
    record = script.end()
    assert record["status"] == "Completed"
    assert record["gpu"]["verdict"] in ("unmeasured", "used")


def test_a_library_that_crashes_costs_the_receipt_and_not_the_run(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    script.compute()
    machine.gpus.tell(GPU, SECOND, more=["0 crash nvmlDeviceGetUtilizationRates"])
    record = script.end()
    assert record["status"] == "Completed"
    assert record["gpu"]["verdict"] in ("unmeasured", "used")


def test_later_foreign_process_is_reported(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    script.compute()
    mine = GPU._replace(processes=((script.pid, 3 << 30, 50), (FOREIGN, 7, 1)), busy=50)
    machine.gpus.tell(mine, SECOND)
    assert script.await_event("gpu_stranger")["pid"] == FOREIGN
    script.let_go()
    machine.gpus.tell(GPU._replace(processes=((FOREIGN, 7, 1),)), SECOND)
    assert machine.desk.wait_for_end(script.number)["gpu"]["gpus"][0]["strangers"][0]["pid"] == FOREIGN


def test_memory_that_is_held_after_a_cancel_is_told_with_its_holder(machine: Machine) -> None:
    script = machine.begin("--gpus", "1")
    script.compute()
    pid = script.pid
    assert machine.desk.holdfast("cancel", "-r", script.number).code == 0
    record = machine.desk.wait_for_end(script.number, 120)
    assert record["status"] == "Canceled"
    held = script.await_event("gpu_held")["holders"]
    assert [holder["pid"] for holder in held] == [pid]


def test_a_run_that_asks_for_none_sees_none(machine: Machine) -> None:
    machine.desk.script("import os\nprint(repr(os.environ['CUDA_VISIBLE_DEVICES']))\n")
    done = machine.desk.submit("--gpus", "0", "train.py")
    assert done.code == 0, done.err
    assert "''" in done.text.splitlines()
    assert machine.desk.record()["gpu"]["verdict"] == "absent"


@pytest.fixture
def driver(machine: Machine, tmp_path: Path) -> Machine:
    """Commands and runs see a /dev with NVIDIA's control device, so that runs are watched that requested no GPU."""
    if os.geteuid():
        pytest.skip("NOT TESTED: only root can mount a /dev")
    place = tmp_path / "dev"
    place.mkdir()
    command = tmp_path / "holdfast"
    command.write_text(WITH_DRIVER.format(place=place, holdfast=HOLDFAST))
    command.chmod(0o755)
    machine.desk.command = str(command)
    return machine


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from model import net\nprint('done')\n", True),
        ("print('done')\n", False),
        ("from model import net\nraise SystemExit(3)\n", False),
    ],
    ids=["imports torch", "no framework", "failed"],
)
def test_a_gpu_that_was_not_requested_and_not_used_is_told_quietly(driver: Machine, text: str, told: bool) -> None:
    desk = driver.desk
    desk.script("try:\n    import torch\nexcept ImportError:\n    pass\nnet = 1\n", "model.py")
    desk.script(text)
    done = desk.submit("train.py")
    line = f"GPU not used: the machine has 2 x {GPU.name}, and model.py imports torch; --gpus 1 requests a GPU"
    assert [said for said in done.err.splitlines() if "GPU" in said] == ([line] if told else []), done.err
    assert desk.record()["gpu"] is None


def test_a_requested_card_without_use_has_its_verdict_only(driver: Machine) -> None:
    driver.desk.script("try:\n    import torch\nexcept ImportError:\n    pass\n")
    done = driver.desk.submit("--gpus", "1", "train.py")
    assert "GPU not used" not in done.err
    assert "GPU idle" in done.err
