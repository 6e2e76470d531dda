"""Runs that a script starts: in a container from outside, and within its own container."""

from __future__ import annotations

import json
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from conftest import eventually

if TYPE_CHECKING:
    from containers.conftest import Seat

both = pytest.mark.parametrize("ground", ["docker", "podman"], indirect=True)
with_docker_and_over_ssh = pytest.mark.parametrize("ground", ["docker", "remote-docker"], indirect=True)

INNER = "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
FROM_OUTSIDE = "import os\nassert os.system('holdfast submit -c box --no-wait inner.py go > /dev/null') == 0\n"
# An image has no Holdfast; this project brings it. A stubborn daemon beside the inner run is a leftover all the same.
WITHIN = """
import os, signal, sys, time
env = 'PYTHONPATH=lib %s -m holdfast' % sys.executable
assert os.system(env + ' submit -c local --no-wait inner.py %s/gate > submitted' % os.getcwd()) == 0
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    open('stubborn', 'w').close()
    time.sleep(600)
while not os.path.exists('stubborn'): time.sleep(0.01)
print('submitted', flush=True)
"""


@both
def test_run_in_a_container_outlives_the_script_that_submitted_it(seat: Seat) -> None:
    seat.desk.script(INNER, "inner.py")
    seat.desk.script(FROM_OUTSIDE)
    engine = seat.desk.env["DOCKER_HOST"]  # a script does not inherit it
    outer = seat.desk.submit("-e", f"DOCKER_HOST={engine}", "train.py")
    assert outer.code == 0, outer
    inner = seat.desk.record()
    assert (inner["script_name"], inner["status"]) == ("inner.py", "Running")
    eventually(lambda: b"up" in seat.desk.holdfast("logs").out, 60)
    seat.go()
    assert seat.desk.wait_for_end(limit=120)["status"] == "Completed"


@with_docker_and_over_ssh
def test_container_stays_until_the_runs_inside_it_have_ended(seat: Seat) -> None:
    _bring_holdfast(seat)
    seat.desk.script(INNER, "inner.py")
    assert seat.submit(WITHIN, "--no-wait").code == 0
    work, store = seat.attempt / "workspace/above/work", seat.attempt / "workspace/above/work/outputs/.holdfast"
    eventually(lambda: b"submitted" in (seat.attempt / "log").read_bytes(), 120)
    eventually(lambda: "started" in _events(store))
    script = next(event for event in seat.desk.events() if event["type"] == "started")
    eventually(lambda: "train.py" not in seat.run("top", seat.container), 60)
    assert "inner.py" in seat.run("top", seat.container)
    assert seat.desk.record()["status"] == "Running", script
    (work / "gate").touch()
    record = seat.desk.wait_for_end(limit=120)
    assert (record["status"], record["exit_code"]) == ("Completed", 0), record
    (leftovers,) = [event for event in seat.desk.events() if event["type"] == "leftovers"]
    assert leftovers["count"] == 1, leftovers
    kept = seat.attempt / "outputs/.holdfast"
    assert "closed" in _events(kept)
    (inner,) = seat.desk.holdfast("history", "list", "-o", "json", env={"HOLDFAST_HOME": str(kept)}).json
    assert (inner["script_name"], inner["status"]) == ("inner.py", "Completed")


@both
def test_cancel_of_the_outer_run_ends_the_runs_in_its_container(seat: Seat) -> None:
    _bring_holdfast(seat)
    seat.desk.script(INNER, "inner.py")
    assert seat.submit(WITHIN, "--no-wait").code == 0
    store = seat.attempt / "workspace/above/work/outputs/.holdfast"
    eventually(lambda: b"submitted" in (seat.attempt / "log").read_bytes(), 120)
    eventually(lambda: "started" in _events(store))
    assert seat.desk.holdfast("cancel").code == 0
    assert seat.desk.wait_for_end(limit=120)["status"] == "Canceled"
    closed = _events(seat.attempt / "outputs/.holdfast")["closed"]
    assert "stopped by signal 15" in closed["reason"]


def _bring_holdfast(seat: Seat) -> None:
    """Copies of our package and of what it needs, all of it plain Python."""
    lib, packages = seat.desk.project / "lib", Path(sysconfig.get_path("purelib"))
    shutil.copytree(Path(holdfast.__file__).parent, lib / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ruamel", "jmespath", "packaging"):
        shutil.copytree(packages / name, lib / name, ignore=shutil.ignore_patterns("__pycache__"))


def _events(store: Path) -> dict[str, dict[str, Any]]:
    """Of the only run in a store, by type."""
    lines = [line for path in store.glob("runs/*/a1/events.jsonl") for line in path.read_text().splitlines()]
    return {event["type"]: event for event in map(json.loads, lines)}
