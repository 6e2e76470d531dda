"""A Spark driver on a machine over SSH whose link is cut, or which reboots: one application, and its true end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from conftest import eventually
from spark import quick_java
from ssh.test_links import Watched
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ssh.conftest import Laptop
    from sshlab import Host, User

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
ROOT = Path(__file__).resolve().parents[2]
THERE = "/opt/spark-lab"
START_S = 400
# Each start of an application is noted; its tasks wait for a file in the user's home.
JOB = """
import os, time
home = os.path.expanduser("~")
with open(home + "/applications", "a") as note:
    note.write(sc.applicationId + "\\n")
def task(number):
    open(home + "/task", "w").close()
    while not os.path.exists(home + "/enough"):
        time.sleep(0.02)
    return number % 3, number
print("rows", sorted(sc.parallelize(range(200), 2).map(task).groupByKey(2).mapValues(len).collect()))
"""
ROWS = b"rows [(0, 67), (1, 67), (2, 66)]\n"


@pytest.fixture(scope="module")
def machines() -> Iterator[Lab]:
    quick_java.require()
    packages = libraries.interpreter(ROOT, libraries.SPARK).parents[2]
    try:
        with Lab(hosts=("gpu1",), shares={THERE: packages, quick_java.THERE: quick_java.home()}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def lab(machines: Lab) -> Iterator[Lab]:
    quick_java.put_on_path(machines["gpu1"])
    yield machines
    machines.reset()


@pytest.fixture
def job(attached: Laptop, ada: User) -> Watched:
    """A job whose tasks run on the machine and wait."""
    config = attached.project / "aml_config"
    (config / "lab1.runconfig").write_text("Target: lab1\n")
    (config / "spark_dependencies.yml").write_text("configuration:\n  spark.driver.memory: 512m\n")
    attached.script(JOB)
    words = ("submit", "-c", "lab1", "--python", f"{THERE}/venv/bin/python", "train.py")
    client = Watched(attached.start(*words))
    eventually(lambda: ada.path("task").exists() or client.process.poll() is not None, START_S)
    assert client.process.poll() is None, (client.finish(), client.out, client.err)
    return client


def test_cut_link_ends_no_job(job: Watched, attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    lab.cut(gpu1, how="reset")
    job.wait_for_words("unreachable since")
    ada.run("touch", "enough")
    eventually(lambda: _scratch_folders(ada) == [], START_S)
    lab.heal(gpu1)
    assert job.finish() == 0, job.err
    assert job.out.count(ROWS) == 1
    record = attached.record()
    assert record["status"] == "Completed"
    assert record["spark"]["receipt"]["verdict"] == "used"
    assert ada.path("applications").read_text().split() == [record["spark"]["application"]]
    eventually(lambda: _of_spark(ada) == [])


def test_rebooted_head_node_loses_the_run_and_starts_no_second_application(
    job: Watched, attached: Laptop, gpu1: Host, ada: User
) -> None:
    assert _scratch_folders(ada) != []
    gpu1.reboot()
    assert job.finish() == 125, job.err
    record = attached.record()
    assert record["status"] == "Lost"
    assert record["reason"].startswith("the target was rebooted at 20")
    assert ada.path("applications").read_text().split() == [record["spark"]["application"]]
    assert _of_spark(ada) == []
    assert _scratch_folders(ada) == []


def _scratch_folders(ada: User) -> list[Path]:
    return list(ada.path(".holdfast/runs").glob("*/a*/scratch"))


def _of_spark(ada: User) -> list[str]:
    """Driver, JVM and Python workers."""
    return [" ".join(row.argv) for row in ada.processes() if "spark" in " ".join(row.argv)]
