"""Scripts with a real Spark on this machine: sessions on demand, record, reasons, packages, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from spark import iris, quick_java
from spark.conftest import START_S

if TYPE_CHECKING:
    from spark.conftest import SparkDesk

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
STOCK = """configuration:
  "spark.app.name": "Azure ML Experiment"
  "spark.sql.shuffle.partitions": 3
  maximizeResourceAllocation: true
repositories:
  - "http://127.0.0.1:9/maven"
packages:
  - group: "com.microsoft.ml.spark"
    artifact: "mmlspark_2.11"
    version: "0.7.91"
"""
# As scripts of 2017 were written: all three ways to a session, a shuffle, a module of the project in a Python worker.
OLD = """
import os, helper
from pyspark import SparkContext
from pyspark.sql import SparkSession
rows = sc.parallelize(range(1000), 4).map(lambda x: (x % 7, helper.double(x))).reduceByKey(lambda a, b: a + b).collect()
print(sorted(rows)[0])
assert spark.sparkContext is sc and sc is SparkContext.getOrCreate() and spark is SparkSession.builder.getOrCreate()
frame = spark.range(1000).selectExpr("id % 5 AS k").groupBy("k").count()
print(frame.rdd.getNumPartitions() <= 3, sum(row["count"] for row in frame.collect()))
conf = dict(sc.getConf().getAll())
print(sc.appName, conf["spark.sql.shuffle.partitions"], conf["spark.authenticate"], conf["spark.driver.host"])
assert os.environ["TOKEN"] == "s3cret-value"
assert "s3cret-value" not in str(conf) + str(sc._jvm.System.getProperties())
folder = "/proc/%d/" % sc._gateway.proc.pid
sockets = [row.split() for row in open(folder + "net/tcp").readlines() + open(folder + "net/tcp6").readlines()]
own = {os.readlink(folder + "fd/" + name) for name in os.listdir(folder + "fd")}
mine = [row[1] for row in sockets if row[3] == "0A" and "socket:[%s]" % row[9] in own]
print("listens", sorted({address.rsplit(":", 1)[0][-8:] for address in mine}))
"""


def test_script_of_2017_runs_unchanged_with_stock_file_and_json_configuration(spark: SparkDesk) -> None:
    (spark.config / "old.runconfig").write_text('{"Target": "local", "ArgumentVector": ["$file"]}')
    (spark.config / "spark_dependencies.yml").write_text(STOCK)
    spark.desk.script("def double(x):\n    return 2 * x\n", "helper.py")
    spark.desk.env["TOKEN"] = "s3cret-value"
    done = spark.submit(OLD, "--secret", "TOKEN", config="old")
    assert done.code == 0, done
    assert "(0, 142142)" in done.text
    assert "True 1000" in done.text
    assert "Azure ML Experiment 3 true 127.0.0.1" in done.text
    assert "listens ['0100007F']" in done.text
    assert done.err.count("mmlspark_2.11:0.7.91 is left out") == 1
    assert "maximizeResourceAllocation is not a setting of Spark" in done.err
    noise = [line for line in done.text.splitlines() if "WARN " in line or "log level" in line or "Stage" in line]
    assert noise == []
    _check_record(spark)


def _check_record(spark: SparkDesk) -> None:
    record = spark.desk.record()["spark"]
    assert record["application"].startswith("local-")
    assert (record["master"], record["spark"], record["scala"][:4]) == ("local[*]", "4.3.0", "2.13")
    assert record["java"][:2] in ("17", "21", "25")
    assert record["ui"].startswith("http://127.0.0.1:")
    receipt = record["receipt"]
    assert (receipt["verdict"], receipt["executors"], receipt["failed_tasks"]) == ("used", 1, 0)
    assert receipt["tasks"] >= 8
    assert receipt["shuffle_write_bytes"] > 0
    assert "spark      local-" in spark.desk.holdfast("info", "-o", "table").text
    attempt = spark.desk.attempt()
    assert not (attempt / "scratch").exists()
    assert "leftovers" not in {event["type"] for event in spark.desk.events()}
    assert "s3cret-value" not in "".join(
        path.read_text(errors="replace") for path in attempt.rglob("*") if path.is_file()
    )


FAILS = """
import os, signal, sys
sc.parallelize([1], 1).count()
if sys.argv[1] == "task":
    sc.parallelize([0], 1).map(lambda x: 1 / x).collect()
os.kill(sc._gateway.proc.pid, signal.SIGKILL)
sc.parallelize([1], 1).count()
"""


def test_failed_stage_is_the_reason_of_the_run(spark: SparkDesk) -> None:
    done = spark.submit(FAILS.replace("sys.argv[1]", "'task'"))
    assert done.code == 1
    record = spark.desk.record()
    assert record["reason"].startswith("Spark stage aborted: ")
    assert record["reason"].endswith("ZeroDivisionError: division by zero")
    assert record["spark"]["receipt"]["failed_tasks"] == 1
    assert "Traceback" in done.text


def test_killed_jvm_is_the_reason_of_the_run(spark: SparkDesk) -> None:
    done = spark.submit(FAILS.replace("sys.argv[1]", "'jvm'"))
    assert done.code == 1
    assert spark.desk.record()["reason"].startswith("Spark's driver JVM was killed by signal 9")


FORKS = """
import os, sys
spark.range(3).count()
for end in (lambda: sys.exit(0), lambda: open("/nowhere/file")):
    child = os.fork()
    if not child:
        end()
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "then", spark.range(5).count())
"""


def test_session_goes_on_when_a_forked_child_ends(spark: SparkDesk) -> None:
    done = spark.submit(FORKS)
    assert done.code == 0, done
    assert "child 0 then 5" in done.text
    assert "child 1 then 5" in done.text
    record = spark.desk.record()
    assert (record["reason"], record["spark"]["receipt"]["verdict"]) == ("", "used")


FILLS_MEMORY = """
print(spark.range(1).selectExpr("size(sequence(1, 100000000 + id))").collect())
"""


def test_jvm_that_runs_out_of_memory_is_the_reason_of_the_run(spark: SparkDesk) -> None:
    """Python itself says no more than ``Connection refused``."""
    (spark.config / "spark.yml").write_text("configuration:\n  spark.driver.memory: 512m\n")
    done = spark.submit(FILLS_MEMORY)
    assert done.code == 1
    reason = spark.desk.record()["reason"]
    assert reason.startswith("Spark's driver JVM "), done
    assert reason.endswith("raise spark.driver.memory")
    assert "ran out of memory" in reason


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("kill -9 $$", "Spark's driver JVM was killed by signal 9: by another process, or by the kernel"),
        ("exit 3", "Spark's JVM ended with code 3 before it could be used; what it printed is above"),
    ],
)
def test_jvm_that_ends_while_it_starts_is_the_reason_with_its_signal_or_code(
    spark: SparkDesk, tmp_path: Path, end: str, reason: str
) -> None:
    """The Java of this test is real for the program that puts Spark's command line together, and then ends."""
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    program = tmp_path / "java" / "bin" / "java"
    real = quick_java.home() / "bin" / "java"
    program.write_text(f'#!/bin/sh\ncase "$*" in *spark.launcher.Main*) exec {real} "$@";; esac\n{end}\n')
    program.chmod(0o755)
    done = spark.submit("spark.range(3).count()", "-e", f"JAVA_HOME={tmp_path / 'java'}")
    assert done.code == 1
    assert spark.desk.record()["reason"].startswith(reason), done


def test_cancel_leaves_no_process_and_no_scratch_folder(spark: SparkDesk, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"""
import os, time
sc.parallelize([1], 1).count()
open({str(note)!r}, "w").write("%d %d" % (os.getpid(), sc._gateway.proc.pid))
sc.parallelize(range(2), 2).map(lambda x: time.sleep(600)).collect()
"""
    done = spark.submit(script, "--no-wait")
    assert done.code == 0, done
    eventually(note.exists, 240)
    family = [int(word) for word in note.read_text().split()]
    assert "its UI, while it runs: http://127.0.0.1:" in spark.desk.holdfast("info", "-o", "table").text
    assert spark.desk.holdfast("cancel", "-r", "last").code == 0
    spark.desk.wait_for_end(limit=60)
    assert spark.desk.record()["status"] == "Canceled"
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []
    assert not (spark.desk.attempt() / "scratch").exists()
    uid = spark.desk.record()["uid"].encode()
    assert [path for path in Path("/proc").glob("[0-9]*/environ") if uid in _read(path)] == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>
<artifactId>{name}</artifactId><version>1.0</version>{dependencies}</project>"""


def make_repository(folder: Path) -> str:
    """A Maven repository with a jar that has a resource, and one that depends on it."""
    below = (
        "<dependencies><dependency><groupId>org.example</groupId><artifactId>base</artifactId><version>1.0</version>"
    )
    for name, dependencies in (("base", ""), ("thing_2.13", f"{below}</dependency></dependencies>")):
        place = folder / "org" / "example" / name / "1.0"
        place.mkdir(parents=True)
        (place / f"{name}-1.0.pom").write_text(POM.format(name=name, dependencies=dependencies))
        with zipfile.ZipFile(place / f"{name}-1.0.jar", "w") as jar:
            jar.writestr(f"{name}.txt", f"from {name}")
            jar.writestr(f"{name.partition('_')[0]}_module.py", f"answer = {name!r}\n")
    return folder.as_uri()


PACKAGES = """repositories:
  - {repository}
packages:
  - group: org.example
    artifact: {artifact}
    version: "1.0"
  - group: org.example
    artifact: old_2.11
    version: "1.0"
"""
OPTIONAL = """  - group: com.microsoft.sqlserver
    artifact: mssql-jdbc
    version: "0.0.absent"
"""
USES = """
import os  # and pyspark
print(sorted(os.path.basename(path) for path in os.environ["HOLDFAST_SPARK_JARS"].split(":")))
"""
LOADS = """
loader = sc._jvm.Thread.currentThread().getContextClassLoader()
print("resource", loader.getResource("base.txt") is not None)
import thing_module
print(thing_module.answer, sc.parallelize([1], 1).map(lambda x: __import__("thing_module").answer).collect())
"""


def test_packages_are_resolved_once_and_need_no_repository_afterwards(spark: SparkDesk, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "maven")
    text = PACKAGES.format(repository=repository, artifact="thing_2.13")
    (spark.config / "spark.yml").write_text(text + OPTIONAL)
    done = spark.submit(USES + LOADS)
    assert done.code == 0, done
    assert "['org.example_base-1.0.jar', 'org.example_thing_2.13-1.0.jar']" in done.text
    assert "resource True" in done.text
    assert "thing_2.13 ['thing_2.13']" in done.text
    left_out = "aml_config/spark.yml:7: org.example:old_2.11:1.0 is built for Scala 2.11 and left out"
    assert left_out in done.text
    missing = "aml_config/spark.yml:10: com.microsoft.sqlserver:mssql-jdbc:0.0.absent cannot be had now and is left out"
    assert done.text.count(missing) == 1
    os.rename(tmp_path / "maven", tmp_path / "gone")
    again = spark.submit(USES, "-e", "PATH=/nowhere")
    assert again.code == 0, again
    assert "'org.example_base-1.0.jar'" in again.text


def test_package_that_is_not_found_ends_the_run_with_its_line(spark: SparkDesk, tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "maven")
    (spark.config / "spark.yml").write_text(PACKAGES.format(repository=repository, artifact="absent"))
    done = spark.submit(USES)
    assert done.code == 65
    reason = spark.desk.record()["reason"]
    assert reason.startswith(
        "aml_config/spark.yml:4: the Spark package org.example:absent:1.0 was not found in file:///"
    )
    assert "[" not in done.text.partition("===\n")[2].partition("holdfast:")[0]  # not one line of the script ran


def test_java_that_does_not_suit_is_the_reason_with_a_command(spark: SparkDesk, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.11-2.4.8.jar").write_text("")
    done = spark.submit("print('first line')\nspark.range(3).count()", "-e", f"SPARK_HOME={tmp_path}")
    assert done.code == 1
    assert "first line" in done.text
    reason = spark.desk.record()["reason"]
    assert reason.startswith("Spark 2.4.8 needs Java 8, and this machine has Java ")
    assert "apt-get install -y openjdk-8-jre-headless" in reason


def test_plain_script_starts_nothing_and_its_exit_code_is_its_own(spark: SparkDesk) -> None:
    done = spark.submit("import sys\nprint(sorted(name for name in sys.modules if 'pyspark' in name))\nsys.exit(7)")
    assert done.code == 7
    assert "[]" in done.text
    assert "spark" not in spark.desk.record()
    assert json.loads((spark.desk.attempt() / "plan.json").read_text())["spark"] == {"master": "local[*]"}


def test_driver_python_killed_leaves_no_jvm(spark: SparkDesk, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"""
import os, signal
sc.parallelize([1], 1).count()
open({str(note)!r}, "w").write(str(sc._gateway.proc.pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = spark.submit(script)
    assert done.code == 128 + signal.SIGKILL
    assert not Path(f"/proc/{note.read_text()}").exists()
    assert spark.desk.record()["spark"]["application"].startswith("local-")
    assert subprocess.run(["ls", spark.desk.attempt() / "scratch"], capture_output=True, check=False).returncode != 0


def test_template_tells_the_flowers_apart(spark: SparkDesk) -> None:
    desk = spark.desk
    made = desk.holdfast("project", "create", "--name", "flowers", "--path", ".", "--template", "spark-iris")
    assert made.code == 0, made
    words = ("submit", "-c", "local", "--python", str(spark.python), "iris_spark.py")
    done = desk.holdfast(*words, cwd=desk.project / "flowers", limit=START_S)
    assert done.code == 0, done
    assert f"accuracy 0.9333 {iris.COUNTS}\n" in done.text
    record = desk.holdfast("history", "last", cwd=desk.project / "flowers").json
    assert record["Accuracy"] == 70 / 75
    assert record["spark"]["receipt"]["verdict"] == "used"
