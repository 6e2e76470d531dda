"""A kernel in a container of a real engine, here and on another machine, used by a real client of Jupyter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from conftest import eventually
from containers.conftest import ground, machines, seat  # noqa: F401 - fixtures
from notebook.conftest import IPYKERNEL, install_kernel, notebook

if TYPE_CHECKING:
    from containers.conftest import Seat

pytestmark = pytest.mark.parametrize("ground", ["docker", "remote-podman"], indirect=True)

ROOT = Path(__file__).resolve().parents[2]
WHERE = """
import os, platform, sys, helper
[name for name in ("/.dockerenv", "/run/.containerenv") if os.path.exists(name)], sys.executable, helper.ANSWER
"""
LOG = """
import holdfast
holdfast.log("accuracy", 0.5)
open("outputs/notes.txt", "w").write("kept")
"""


def add_ipykernel(seat: Seat) -> None:  # noqa: F811 - a fixture
    """As an image has it whose environment is its own affair."""
    packages = libraries.image_packages(ROOT, ("ipykernel", f"ipykernel=={IPYKERNEL}"))
    seat.target(f"dockerArguments: --volume {seat.published(packages)}:{libraries.IMAGE_PACKAGES}:ro")


def test_kernel_runs_cells_in_the_container_and_is_a_run(seat: Seat, jupyter: Path) -> None:  # noqa: F811
    add_ipykernel(seat)
    desk = seat.desk
    desk.script("ANSWER = 42", "helper.py")
    name = install_kernel(desk, jupyter, "-c", "box")
    with notebook(desk, jupyter, name) as study:
        shown = study.run(WHERE)
        mark = "/.dockerenv" if seat.name == "docker" else "/run/.containerenv"
        assert shown["value"] == f"(['{mark}'], '/usr/bin/python3', 42)", shown
        assert seat.containers() == [seat.container]
        assert study.run(LOG)["status"] == "ok"
        shown = study.ask("interrupt", "import time; time.sleep(60)")
        assert shown["error"].startswith("KeyboardInterrupt")
        assert study.run("helper.ANSWER")["value"] == "42"
        assert study.ask("shutdown") == {"is_alive": False}
    record = desk.wait_for_end()
    assert (record["status"], record["script_name"], record["accuracy"]) == ("Completed", "kernel", 0.5)
    assert desk.holdfast("history", "info", "-a", "outputs/notes.txt").out == b"kept"


def test_container_ends_when_jupyter_is_killed(seat: Seat, jupyter: Path) -> None:  # noqa: F811
    add_ipykernel(seat)
    name = install_kernel(seat.desk, jupyter, "-c", "box")
    with notebook(seat.desk, jupyter, name) as study:
        assert study.run("1 + 1")["value"] == "2"
        study.kill_jupyter()
        assert seat.desk.wait_for_end()["status"] == "Canceled"
    eventually(lambda: seat.containers() == [], 60)


def test_image_without_ipykernel_is_an_error_in_the_notebook(seat: Seat, jupyter: Path) -> None:  # noqa: F811
    name = install_kernel(seat.desk, jupyter, "-c", "box")
    with notebook(seat.desk, jupyter, name) as study:
        shown = study.run("1 + 1")
        assert shown["status"] == "error"
        assert "the module ipykernel is not installed" in shown["error"]
        assert seat.desk.wait_for_end()["status"] == "Failed"
