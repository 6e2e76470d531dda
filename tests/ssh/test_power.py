"""Machines that are switched on when they are needed and off when they are not, laptop open or shut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conftest import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from ssh.conftest import Laptop
    from sshlab import Host, User


@pytest.fixture
def switch(attached: Laptop, tmp_path: Path) -> Path:
    """A folder where the target's commands leave a file; the lab acts on it."""
    folder = tmp_path / "switch"
    folder.mkdir()
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(f"{path.read_text()}startCommand: touch {folder}/on\nstopCommand: touch {folder}/off\n")
    return folder


def test_a_command_of_a_project_is_not_run_before_it_is_trusted(attached: Laptop, switch: Path) -> None:
    for word in ("start", "stop"):
        result = attached.holdfast("computetarget", word, "lab1")
        assert result.code == 65, result
        assert "holdfast trust lab1" in result.err
    assert list(switch.iterdir()) == []


def test_a_changed_command_is_not_the_trusted_one(attached: Laptop, switch: Path) -> None:
    assert attached.holdfast("computetarget", "trust", "lab1").code == 0
    assert attached.holdfast("computetarget", "stop", "lab1").code == 0
    assert (switch / "off").exists()
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(path.read_text().replace("/off", "/evil"))
    assert attached.holdfast("computetarget", "stop", "lab1").code == 65
    assert not (switch / "evil").exists()


def test_a_machine_that_is_off_is_started_by_a_submit(attached: Laptop, gpu1: Host, switch: Path) -> None:
    attached.script("print('awake')")
    attached.close_connections()
    gpu1.power_off()
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 69, result
    assert "trust lab1" in result.err
    attached.holdfast("computetarget", "trust", "lab1")
    with attached.start("submit", "-c", "lab1", "train.py") as process:
        eventually((switch / "on").exists, 60)
        gpu1.boot()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert b"awake\n" in out


def test_a_start_command_that_fails_is_told_with_its_words(attached: Laptop, switch: Path) -> None:
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(path.read_text().replace(f"touch {switch}/on", "echo no credit >&2; exit 7"))
    attached.holdfast("computetarget", "trust", "lab1")
    result = attached.holdfast("computetarget", "start", "lab1")
    assert result.code == 69
    assert "no credit" in result.err
    assert "code 7" in result.err


def test_the_last_run_switches_its_machine_off_with_the_laptop_shut(attached: Laptop, ada: User) -> None:
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(f"{path.read_text()}stopOnTarget: touch /home/ada/stopped\nstopWhenIdleMinutes: 0.02\n")
    attached.trust("lab1")
    attached.script("print('one')")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    attached.close_connections()
    eventually(lambda: ada.path("stopped").exists(), 60)
    assert "idle for 0.02 minutes: touch" in ada.path(".holdfast/idle.log").read_text()
    eventually(lambda: ada.processes() == [])


def test_a_machine_with_a_run_on_it_is_not_switched_off(attached: Laptop, ada: User) -> None:
    path = attached.project / "aml_config" / "lab1.compute"
    path.write_text(f"{path.read_text()}stopOnTarget: touch /home/ada/stopped\nstopWhenIdleMinutes: 0.02\n")
    attached.trust("lab1")
    attached.script(
        "import os, sys, time\n"
        "while sys.argv[1:] and not os.path.exists(os.path.expanduser('~/enough')): time.sleep(0.01)\n"
    )
    attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py", "long")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    eventually(lambda: not [one for one in ada.processes() if "idle.main" in " ".join(one.argv)])
    assert not ada.path("stopped").exists()
    ada.run("touch", "enough")
    eventually(lambda: ada.path("stopped").exists(), 60)


def test_runs_tells_what_is_on_and_idle(attached: Laptop, switch: Path) -> None:
    attached.script("print('one')")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert "lab1: on, idle 0." in attached.holdfast("runs").err
