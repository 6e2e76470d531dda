"""Scripts on a real Spark Connect server: no Java here, what is refused, what is recorded, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from spark import iris
from spark.conftest import START_S, SparkDesk
from spark.connect_server import ConnectServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
SETTINGS = """configuration:
  spark.sql.shuffle.partitions: 3
  spark.sql.warehouse.dir: /elsewhere
  spark.executor.memory: 512m
"""
JOB = """
import glob, os
from pyspark.sql import SparkSession
print(spark.range(1000).selectExpr("id % 7 AS k", "id").groupBy("k").sum("id").orderBy("k").collect()[0])
session = SparkSession.builder.config("spark.sql.ansi.enabled", "false").getOrCreate()
assert session is spark
print("partitions", spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.ansi.enabled"))
children = " ".join(open(path).read() for path in glob.glob("/proc/self/task/*/children")).split()
print("Java", [pid for pid in children if "java" in open("/proc/" + pid + "/cmdline").read()])
"""
NO_JAVA = ("-e", "PATH=/nowhere", "-e", "JAVA_HOME=/nowhere")


@pytest.fixture(scope="module")
def server(pyspark: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    started = ConnectServer(pyspark, tmp_path_factory.mktemp("connect"))
    yield started
    started.kill()


@pytest.fixture
def attached(spark: SparkDesk, server: ConnectServer) -> SparkDesk:
    done = spark.desk.holdfast("computetarget", "attach", "cluster", "--name", "sc1", "--address", server.url)
    assert done.code == 0, done
    return spark


def test_session_by_name_and_builder_uses_no_java(attached: SparkDesk, server: ConnectServer) -> None:
    (attached.config / "spark_dependencies.yml").write_text(SETTINGS)
    plan = attached.submit(JOB, "--dry-run", config="sc1")
    assert plan.code == 0, plan
    assert plan.json["spark"]["remote"] == server.url
    done = attached.submit(JOB, *NO_JAVA, config="sc1")
    assert done.code == 0, done
    assert "Row(k=0, sum(id)=71071)" in done.text
    assert "partitions 3 false" in done.text
    assert "Java []" in done.text
    assert done.text.count("which a script cannot change: spark.executor.memory, spark.sql.warehouse.dir\n") == 1
    record = attached.desk.record()["spark"]
    assert (record["master"], record["spark"]) == (server.url, "4.3.0")
    assert record["application"].startswith("local-")
    assert len(record["session"]) == 36
    assert "receipt" not in record  # the server tells no figures
    assert f"local-{record['application'][6:]} on {server.url}" in attached.desk.holdfast("info", "-o", "table").text


NEWER = """import os
__path__ = [{real!r}]
exec(compile(open(os.path.join({real!r}, "__init__.py")).read(), "pyspark", "exec"))
"""


@pytest.fixture
def newer(attached: SparkDesk, tmp_path: Path) -> tuple[str, str]:
    """Options for a submit whose PySpark is the real one, and whose own file names a version of the future."""
    real = next(attached.python.parents[1].glob("lib/python3*/site-packages/pyspark"))
    package = tmp_path / "newer" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(NEWER.format(real=str(real)))
    (package / "version.py").write_text('__version__: str = "9.1.0"\n')
    return "-e", f"PYTHONPATH={package.parent}"


def test_client_that_is_newer_than_the_server_is_refused_before_the_first_line(
    attached: SparkDesk, server: ConnectServer, newer: tuple[str, str]
) -> None:
    done = attached.submit("print('first line')\nspark.range(3).count()", *newer, config="sc1")
    assert done.code == 65
    assert "first line" not in done.text
    reason = attached.desk.record()["reason"]
    assert reason.startswith(f"the Spark Connect server {server.url} has Spark 4.3.0, and the script has PySpark 9.1.0")
    assert "install pyspark[connect]==4.3.0" in reason


def test_client_that_is_newer_than_the_server_is_refused_at_its_session(
    attached: SparkDesk, server: ConnectServer, newer: tuple[str, str]
) -> None:
    """The script shows no use of Spark."""
    (attached.desk.project / "data").write_text("spark.range(3).count()\nprint('counted')")
    done = attached.submit("print('first line')\nexec(open('data').read())", *newer, config="sc1")
    assert done.code == 1
    assert "first line" in done.text
    assert "counted" not in done.text
    reason = attached.desk.record()["reason"]
    assert reason.startswith(f"the Spark Connect server {server.url} has Spark 4.3.0, and the script has PySpark 9.1.0")


def test_declared_pyspark_that_is_newer_than_the_server_is_refused_with_its_line(attached: SparkDesk) -> None:
    (attached.config / "sc1.runconfig").write_text("Target: sc1\nFramework: PySpark\nCondaDependenciesFile: env.yml\n")
    (attached.desk.project / "env.yml").write_text("dependencies:\n- python=3.11\n- pip:\n  - pyspark==4.9.1\n")
    attached.desk.script("spark.range(3).count()")
    done = attached.desk.holdfast("submit", "-c", "sc1", "train.py")
    assert done.code == 65, done
    assert "the project declares PySpark 4.9.1, and the cluster of sc1 has Spark 4.3.0" in done.err
    assert "env.yml:4" in done.err


@pytest.mark.parametrize(
    "script",
    ["spark.range(3).count()\nsc.parallelize([1])", "spark.sparkContext", "spark.range(3).rdd", "sc.parallelize([1])"],
)
def test_context_and_rdds_are_refused_with_the_alternative(attached: SparkDesk, script: str) -> None:
    done = attached.submit(script, config="sc1")
    assert done.code == 1
    explained = "no SparkContext and no RDDs: use spark and DataFrames, or attach the cluster's master"
    log = (attached.desk.attempt() / "log").read_text()
    assert log.count(explained) == 1
    assert explained in attached.desk.record()["reason"]


FORKS = """
import helper, os, signal, sys
from pyspark.sql import functions as f
spark.range(3).count()
double = f.udf(helper.double, "long")
for end in (lambda: sys.exit(0), lambda: os.kill(os.getpid(), signal.SIGTERM)):
    child = os.fork()
    if not child:
        end()
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print([row[0] for row in spark.range(3).select(double("id")).collect()])
"""


def test_session_outlives_forked_children_and_has_the_modules_of_the_project(attached: SparkDesk) -> None:
    attached.desk.script("def double(x):\n    return 2 * x\n", "helper.py")
    done = attached.submit(FORKS, config="sc1")
    assert done.code == 0, done
    assert "child 0\n[0, 2, 4]\n" in done.text
    assert "child -15\n[0, 2, 4]\n" in done.text


def test_template_has_the_same_result_on_a_connect_server(attached: SparkDesk, server: ConnectServer) -> None:
    iris.copy_to(attached.desk, "sc1")
    words = ("submit", "-c", "sc1", "--python", str(attached.python), *NO_JAVA, iris.SCRIPT)
    iris.check(attached.desk, attached.desk.holdfast(*words, limit=START_S))
    assert attached.desk.record()["spark"]["master"] == server.url


LACKS = """
from pyspark.sql.functions import udf
spark.range(1).select(udf(lambda x: __import__("absent_module"), "long")("id")).collect()
"""


def test_module_that_a_task_lacks_is_the_reason_and_may_be_missing_on_the_server(attached: SparkDesk) -> None:
    done = attached.submit(LACKS, config="sc1")
    assert done.code == 1
    assert attached.desk.record()["reason"] == "Spark: ModuleNotFoundError: No module named 'absent_module'"
    assert "if a task on the Spark Connect server lacked it, install it there" in done.err


SLOW = """
import time
from pyspark.sql.functions import udf
for policy in spark.client.get_retry_policies():
    policy.max_retries = 3  # ten minutes of patience are too long for a test
spark.range(2, numPartitions=2).select(udf(lambda x: time.sleep(600), "long")("id")).collect()
"""


def test_cancel_leaves_no_job_on_the_server(attached: SparkDesk, server: ConnectServer) -> None:
    assert attached.submit(SLOW, "--no-wait", config="sc1").code == 0
    eventually(lambda: server.running_jobs() == 1, START_S)
    assert attached.desk.holdfast("cancel", "-r", "last").code == 0
    attached.desk.wait_for_end(limit=60)
    assert attached.desk.record()["status"] == "Canceled"
    eventually(lambda: server.running_jobs() == 0, 60)


@pytest.mark.parametrize("words", [("submit", "-c", "sc1", "train.py"), ("computetarget", "attach", "cluster")])
def test_server_that_does_not_answer_is_told_before_anything_is_stored(desk: Desk, words: tuple[str, ...]) -> None:
    desk.script("")
    if words[0] == "submit":
        (desk.project / "aml_config").mkdir()
        (desk.project / "aml_config" / "sc1.compute").write_text("type: cluster\naddress: sc://127.0.0.1:9\n")
        desk.trust("sc1")
        done = desk.holdfast(*words)
    else:
        done = desk.holdfast(*words, "--name", "sc1", "--address", "sc://127.0.0.1:9")
        assert not (desk.project / "aml_config").exists()
    assert done.code == 69
    assert "the Spark Connect server does not answer" in done.err
    assert not list((desk.home / "runs").glob("*"))


def test_killed_server_is_the_reason_of_the_run(attached: SparkDesk, server: ConnectServer) -> None:
    """The last test here, because its server is gone."""
    assert attached.submit(SLOW, "--no-wait", config="sc1").code == 0
    eventually(lambda: server.running_jobs() == 1, START_S)
    server.kill()
    attached.desk.wait_for_end(limit=120)
    record = attached.desk.record()
    assert (record["status"], record["exit_code"]) == ("Failed", 1)
    assert (
        record["reason"] == f"the Spark Connect server {server.url} no longer answers; the session and its job are lost"
    )
    log = (attached.desk.attempt() / "log").read_text()
    assert f"the Spark Connect server {server.url} does not answer; Spark tries again for ten minutes" in log
    plan = json.loads((attached.desk.attempt() / "plan.json").read_text())
    assert plan["spark"] == {"remote": server.url, "uses_spark": True}
