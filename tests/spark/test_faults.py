"""Parts of Spark that are killed while a job runs: each run ends with its true state and Spark's own reason."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import Desk, Result, alive, eventually
from disks.volume import Volume
from lab.server import Fault, serve
from spark.conftest import START_S, SparkDesk
from spark.killable import Killable, commands, is_python_worker
from spark.test_local import PACKAGES, USES, make_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
# Both tasks of the first stage note their executor and wait for the gate; a shuffle follows.
JOB = """
import os, signal, time
if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
gate, notes = {gate!r}, {notes!r}
def task(number):
    open(os.path.join(notes, "task-%d" % os.getpid()), "w").close()
    while not os.path.exists(gate):
        time.sleep(0.02)
    return number % 3, {value}
sc.setLogLevel("ERROR")
with open(os.path.join(notes, "new"), "w") as note:
    note.write("%s %d %d" % (sc.applicationId, os.getpid(), sc._gateway.proc.pid))
os.rename(os.path.join(notes, "new"), os.path.join(notes, "driver"))
rows = sc.parallelize(range(200), 2).map(task).groupByKey(2).mapValues(len).collect()
print("rows", sorted(rows))
"""
ROWS = "rows [(0, 67), (1, 67), (2, 66)]"
KILLS_ITS_EXECUTOR = "os.kill(int(open('/proc/%d/stat' % os.getppid()).read().split()[3]), 9)"  # daemon's parent
CHECKS_JARS = """
import zipfile
assert not [path for path in os.environ["HOLDFAST_SPARK_JARS"].split(":") if zipfile.ZipFile(path).testzip()]
print("whole")
"""
CONFIGURATION = """configuration:
  spark.executor.memory: 512m
  spark.driver.memory: 512m
"""


class Struck:
    """A submit of ``JOB`` whose two tasks run and wait."""

    def __init__(
        self, spark: SparkDesk, place: Path, *options: str, config: str = "sp1", value: str = "number"
    ) -> None:
        self.desk = spark.desk
        self.gate, self.notes = place / "gate", place / "notes"
        self.notes.mkdir()
        self.desk.script(JOB.format(gate=str(self.gate), notes=str(self.notes), value=value), "etl.py")
        words = ("submit", "-c", config, "--python", str(spark.python), *options, "etl.py")
        self.client = self.desk.start(*words)
        eventually(lambda: self.client.poll() is not None or self.tasks() == 2, START_S)
        assert self.client.poll() is None, self.client.communicate()
        application, python, jvm = (self.notes / "driver").read_text().split()
        self.application, self.python, self.jvm = application, int(python), int(jvm)

    def tasks(self) -> int:
        """How many tasks have begun so far."""
        return len(list(self.notes.glob("task-*")))

    def finish(self) -> Result:
        self.gate.touch()
        out, err = self.client.communicate(timeout=START_S)
        return Result(self.client.returncode, out, err.decode(errors="replace"))

    def record(self) -> dict[str, Any]:
        return self.desk.wait_for_end(limit=60)

    def check_completed(self) -> dict[str, Any]:
        done = self.finish()
        record = self.record()
        assert (done.code, record["status"]) == (0, "Completed"), (done, record["reason"])
        assert ROWS in done.text
        return record


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    """Where the workers of the cluster keep what executors write."""
    place = tmp_path_factory.mktemp("disk")
    volume = Volume(Desk(place), place / "small", "64m")
    yield volume
    volume.leave()


@pytest.fixture(scope="module")
def running(pyspark: Path, disk: Volume, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    folder = tmp_path_factory.mktemp("standalone")
    cluster = Killable(pyspark, folder, local=disk.place, before=disk.enter)
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(running: Killable, disk: Volume) -> Killable:
    disk.free()
    running.make_whole()
    return running


@pytest.fixture
def attached(spark: SparkDesk, cluster: Killable) -> SparkDesk:
    done = spark.desk.holdfast("computetarget", "attach", "cluster", "--name", "sp1", "--address", cluster.url)
    assert done.code == 0, done
    (spark.config / "spark_dependencies.yml").write_text(CONFIGURATION)
    return spark


def test_job_survives_a_killed_executor_which_the_receipt_names(
    attached: SparkDesk, cluster: Killable, tmp_path: Path
) -> None:
    before = cluster.applications()
    job = Struck(attached, tmp_path)
    os.kill(cluster.executors(job.application)[0], signal.SIGKILL)
    eventually(lambda: job.tasks() == 3, START_S)
    receipt = job.check_completed()["spark"]["receipt"]
    assert [row["reason"] for row in receipt["lost"]] == ["Command exited with code 137"]
    assert (receipt["executors"], receipt["verdict"]) == (3, "used")
    assert sorted(cluster.applications()) == sorted([*before, job.application])
    cluster.await_nothing_left(job.application)


def test_task_that_kills_its_executors_is_the_reason_with_their_exit_code(
    attached: SparkDesk, cluster: Killable, tmp_path: Path
) -> None:
    configuration = attached.config / "spark_dependencies.yml"
    configuration.write_text(configuration.read_text() + "  spark.task.maxFailures: 1\n")
    job = Struck(attached, tmp_path, value=KILLS_ITS_EXECUTOR)
    done = job.finish()
    record = job.record()
    assert (done.code, record["status"]) == (1, "Failed")
    assert record["reason"].startswith("Spark stage aborted: ")
    assert "137" in record["reason"]
    cluster.await_nothing_left(job.application)


def test_job_survives_a_killed_worker(attached: SparkDesk, cluster: Killable, tmp_path: Path) -> None:
    job = Struck(attached, tmp_path)
    cluster.kill_worker(0)
    eventually(lambda: len(cluster.executors(job.application)) == 1, 60)
    receipt = job.check_completed()["spark"]["receipt"]
    assert len(receipt["lost"]) == 1
    cluster.await_nothing_left(job.application)


def test_job_survives_a_killed_master(attached: SparkDesk, cluster: Killable, tmp_path: Path) -> None:
    job = Struck(attached, tmp_path)
    cluster.kill_master()
    job.check_completed()
    eventually(lambda: cluster.executors(job.application) == [], 60)


def test_restarted_master_that_forgot_the_application_is_the_reason(
    attached: SparkDesk, cluster: Killable, tmp_path: Path
) -> None:
    job = Struck(attached, tmp_path)
    cluster.kill_master()
    cluster.make_whole()
    out, _ = job.client.communicate(timeout=START_S)  # Spark by itself would wait for ever
    record = job.record()
    assert (job.client.returncode, record["status"]) == (1, "Failed"), (out, record)
    expected = f"the Spark master {cluster.url} does not know application {job.application} any more"
    assert record["reason"].startswith(expected)
    assert cluster.applications() == []
    cluster.await_nothing_left(job.application)


@pytest.mark.parametrize("part", ["jvm", "python"])
def test_killed_driver_leaves_nothing_on_the_cluster(
    attached: SparkDesk, cluster: Killable, tmp_path: Path, part: str
) -> None:
    job = Struck(attached, tmp_path)
    os.kill(job.jvm if part == "jvm" else job.python, signal.SIGKILL)
    done = job.finish()
    record = job.record()
    reason = "Spark's driver JVM was killed by signal 9" if part == "jvm" else "killed by signal 9 (SIGKILL"
    assert (done.code, record["status"]) == (1 if part == "jvm" else 137, "Failed")
    assert record["reason"].startswith(reason)
    assert record["spark"]["application"] == job.application
    assert cluster.applications().count(job.application) == 1
    assert not alive(job.jvm)
    assert not alive(job.python)
    cluster.await_nothing_left(job.application)


def test_cancel_of_a_script_that_ignores_sigterm_leaves_nothing_on_the_cluster(
    attached: SparkDesk, cluster: Killable, tmp_path: Path
) -> None:
    folders = cluster.local_folders()
    job = Struck(attached, tmp_path, "-e", "STUBBORN=1", "--grace", "1s")
    pythons = [pid for pid in commands() if is_python_worker(pid, job.application)]
    assert len(pythons) >= 2
    assert cluster.local_folders() > folders
    assert attached.desk.holdfast("cancel", "-r", "last").code == 0
    assert job.record()["status"] == "Canceled"
    assert not alive(job.jvm)
    assert not alive(job.python)
    assert not (attached.desk.attempt() / "scratch").exists()
    cluster.await_nothing_left(job.application)
    assert [pid for pid in pythons if alive(pid)] == []
    eventually(lambda: cluster.local_folders() == folders, 60)
    job.client.communicate(timeout=60)


def test_full_disk_of_workers_is_the_reason(
    attached: SparkDesk, cluster: Killable, disk: Volume, tmp_path: Path
) -> None:
    job = Struck(attached, tmp_path, value="os.urandom(20000)")
    disk.fill(leave=200_000)
    done = job.finish()
    record = job.record()
    assert (done.code, record["status"]) == (1, "Failed")
    assert record["reason"].startswith("Spark stage aborted: ")
    assert "No space left on device" in record["reason"]
    disk.free()
    cluster.await_nothing_left(job.application)


def test_killed_client_ends_no_run(attached: SparkDesk, cluster: Killable, tmp_path: Path) -> None:
    before = cluster.applications()
    job = Struck(attached, tmp_path)
    job.client.kill()
    job.finish()
    record = job.record()
    assert (record["status"], record["exit_code"]) == ("Completed", 0)
    assert ROWS in attached.desk.holdfast("logs", "-r", "last").text
    assert sorted(cluster.applications()) == sorted([*before, job.application])
    cluster.await_nothing_left(job.application)


def test_repository_that_fails_in_mid_download_leaves_no_half_jar(spark: SparkDesk, tmp_path: Path) -> None:
    make_repository(tmp_path / "maven")
    with serve(tmp_path / "maven") as server:
        server.faults["/org/example/thing_2.13/1.0/thing_2.13-1.0.jar"] = Fault(cut=True)
        (spark.config / "spark.yml").write_text(PACKAGES.format(repository=server.url, artifact="thing_2.13"))
        done = spark.submit(USES)
        reason = spark.desk.record()["reason"]
        assert done.code == 65
        assert reason.startswith("aml_config/spark.yml:4: the Spark package org.example:thing_2.13:1.0 ")
        assert f"could not be downloaded from {server.url}" in reason
        assert "thing_2.13.jar: Premature end of " in reason
        server.faults.clear()
        again = spark.submit(USES + CHECKS_JARS)
    assert again.code == 0, again
    assert "['org.example_base-1.0.jar', 'org.example_thing_2.13-1.0.jar']" in again.text
    assert "whole" in again.text
