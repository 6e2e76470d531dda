"""Runs that are ended at awkward moments, with a Spark of this machine: nothing of them is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from spark.conftest import START_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark.conftest import SparkDesk

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def task(number):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
while True:
    try:
        sc.parallelize(range(2), 2).map(task).collect()
    except Exception:
        time.sleep(0.1)
"""


@pytest.fixture
def temporary(spark: SparkDesk, tmp_path: Path) -> Path:
    """The folder for temporary files of all processes of the desk."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    spark.desk.env["TMPDIR"] = str(folder)
    return folder


def test_cancel_while_the_jvm_starts_leaves_nothing(spark: SparkDesk, temporary: Path) -> None:
    assert spark.submit("spark.range(3).count()", "--no-wait").code == 0
    eventually(
        lambda: any(b"org.apache.spark.deploy.SparkSubmit" in _read(path / "cmdline") for path in _family(spark)),
        START_S,
    )
    assert spark.desk.holdfast("cancel", "-r", "last").code == 0
    assert spark.desk.wait_for_end(limit=60)["status"] == "Canceled"
    _check_nothing_left(spark, temporary)


def test_script_that_ignores_sigterm_is_ended_at_its_timeout(spark: SparkDesk, temporary: Path) -> None:
    done = spark.submit(STUBBORN, "--timeout", "8s", "--grace", "1s")
    assert done.code == 124
    record = spark.desk.record()
    assert (record["status"], record["reason"]) == ("Failed", "timed out after 8s")
    _check_nothing_left(spark, temporary)


def test_supervisor_that_is_killed_leaves_no_jvm_and_no_scratch_folder(spark: SparkDesk, temporary: Path) -> None:
    assert spark.submit(STUBBORN, "--no-wait").code == 0
    eventually(lambda: any(b"pyspark.daemon" in _read(path / "cmdline") for path in _family(spark)), START_S)
    supervisor = next(event["pid"] for event in spark.desk.events() if event["type"] == "accepted")
    os.kill(int(supervisor), signal.SIGKILL)
    record = spark.desk.wait_for_end(limit=60)
    assert (record["status"], record["exit_code"]) == ("Lost", 125)
    assert record["spark"]["application"].startswith("local-")
    _check_nothing_left(spark, temporary)


def _check_nothing_left(spark: SparkDesk, temporary: Path) -> None:
    assert [_read(path / "cmdline") for path in _family(spark)] == []
    assert not (spark.desk.attempt() / "scratch").exists()
    assert list(temporary.iterdir()) == []


def _family(spark: SparkDesk) -> Iterator[Path]:
    """Folders in /proc of all processes of the last run."""
    uid = str(spark.desk.record()["uid"]).encode()
    return (path.parent for path in Path("/proc").glob("[0-9]*/environ") if uid in _read(path))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
