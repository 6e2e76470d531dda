"""Scripts on a real standalone master with two workers: where they run, what they leave, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from spark import iris
from spark.conftest import START_S, SparkDesk
from spark.standalone import Standalone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
JOB = """
import helper
rows = sc.parallelize(range(1000), 4).map(lambda x: (x % 7, helper.double(x))).reduceByKey(lambda a, b: a + b).collect()
print(sorted(rows)[0], sc.master)
where = sc.parallelize(range(2), 2).map(lambda x: __import__("os").getcwd()).collect()
print("apart", all("/app-" in folder for folder in where))
print(spark.range(1000).selectExpr("id % 5 AS k").groupBy("k").count().count())
"""


@pytest.fixture(scope="module")
def cluster(pyspark: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    standalone = Standalone(pyspark, tmp_path_factory.mktemp("standalone"))
    yield standalone
    standalone.stop()


@pytest.fixture
def attached(spark: SparkDesk, cluster: Standalone) -> SparkDesk:
    words = ("computetarget", "attach", "cluster", "--name", "sp1", "--address", cluster.url)
    done = spark.desk.holdfast(*words)
    assert done.code == 0, done
    (spark.config / "spark_dependencies.yml").write_text(
        "configuration:\n  spark.executor.memory: 512m\n  spark.driver.memory: 512m\n"
    )
    return spark


def test_shuffle_runs_on_executors_with_modules_of_the_project(attached: SparkDesk, cluster: Standalone) -> None:
    attached.desk.script("def double(x):\n    return 2 * x\n", "helper.py")
    plan = attached.submit(JOB, "--dry-run", config="sp1")
    assert plan.code == 0, plan
    assert plan.json["spark"]["master"] == cluster.url
    done = attached.submit(JOB, config="sp1")
    assert done.code == 0, done
    assert f"(0, 142142) {cluster.url}" in done.text
    assert "apart True" in done.text
    record = attached.desk.record()["spark"]
    assert record["application"].startswith("app-")
    assert record["master"] == cluster.url
    receipt = record["receipt"]
    assert (receipt["verdict"], receipt["executors"], receipt["failed_tasks"]) == ("used", 2, 0)
    assert receipt["shuffle_write_bytes"] > 0
    assert cluster.state()["activeapps"] == []


FAILS = "sc.parallelize([0, 0], 2).map(lambda x: 1 / x).collect()"


def test_failed_task_brings_its_reason_and_the_log_of_its_executor(attached: SparkDesk) -> None:
    done = attached.submit(FAILS, config="sp1")
    assert done.code == 1
    record = attached.desk.record()
    assert record["reason"].startswith("Spark stage aborted: ")
    assert "ZeroDivisionError" in record["reason"]
    assert record["spark"]["receipt"]["failed_tasks"] >= 4
    logs = list((attached.desk.attempt() / "outputs" / "spark").glob("executor-*.stderr.txt"))
    assert any("ZeroDivisionError" in path.read_text() for path in logs)


def test_cancel_leaves_no_application_and_no_executor(attached: SparkDesk, cluster: Standalone, tmp_path: Path) -> None:
    note = tmp_path / "started"
    script = f"""
import time
sc.parallelize([1], 1).count()
open({str(note)!r}, "w").close()
sc.parallelize(range(2), 2).map(lambda x: time.sleep(600)).collect()
"""
    assert attached.submit(script, "--no-wait", config="sp1").code == 0
    eventually(note.exists, START_S)
    assert len(cluster.state()["activeapps"]) == 1
    assert attached.desk.holdfast("cancel", "-r", "last").code == 0
    attached.desk.wait_for_end(limit=60)
    assert attached.desk.record()["status"] == "Canceled"
    eventually(lambda: cluster.state()["activeapps"] == [], 60)
    eventually(lambda: all(worker["coresused"] == 0 for worker in cluster.state()["workers"]), 60)
    application = cluster.state()["completedapps"][0]["id"].encode()
    eventually(lambda: not [path for path in Path("/proc").glob("[0-9]*/cmdline") if application in _read(path)], 60)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_template_has_the_same_result_on_a_cluster(attached: SparkDesk, cluster: Standalone) -> None:
    iris.copy_to(attached.desk, "sp1")
    words = ("submit", "-c", "sp1", "--python", str(attached.python), iris.SCRIPT)
    iris.check(attached.desk, attached.desk.holdfast(*words, limit=START_S))
    record = attached.desk.record()["spark"]
    assert (record["master"], record["receipt"]["verdict"]) == (cluster.url, "used")


def test_master_that_does_not_answer_is_told_before_anything_is_stored(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "sp1.compute").write_text("type: cluster\naddress: spark://127.0.0.1:9\n")
    desk.script("print('ran')")
    desk.trust("sp1")
    done = desk.holdfast("submit", "-c", "sp1", "train.py")
    assert done.code == 69
    assert "the Spark master does not answer" in done.err
    assert not list((desk.home / "runs").glob("*"))


def test_attach_of_a_malformed_or_silent_master_writes_nothing(desk: Desk) -> None:
    words = ("computetarget", "attach", "cluster", "--name", "sp1", "--address")
    assert desk.holdfast(*words, "spark://127.0.0.1:9").code == 69
    assert desk.holdfast(*words, "spark://nowhere").code == 65
    assert not (desk.project / "aml_config").exists()


def test_spark_cluster_of_a_project_is_used_only_after_a_confirmation(desk: Desk) -> None:
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "sp1.compute").write_text("type: cluster\naddress: spark://127.0.0.1:9\n")
    desk.script("")
    done = desk.holdfast("submit", "-c", "sp1", "train.py")
    assert done.code == 65
    assert "holdfast trust sp1" in done.err
