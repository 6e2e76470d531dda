"""Spark's part of a script's process, as far as it needs no JVM: names, Java, receipts, reasons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import libraries
from holdfast.script_api.spark import context, forked, gateway, java, memory, packages, record


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return libraries.make_site(tmp_path_factory.mktemp("site"))


def run(code: str, place: Path, site: Path, **env: str) -> subprocess.CompletedProcess[str]:
    variables = libraries.run_variables(place, site)
    variables["HOLDFAST_SPARK"] = json.dumps({"master": "local[*]"})
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(place)])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env={"PATH": os.environ["PATH"], **variables, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_names_are_there_and_import_nothing(tmp_path: Path, site: Path) -> None:
    code = "import sys; spark; sc; print(type(sc).__name__, [name for name in sys.modules if 'pyspark' in name])"
    done = run(code, tmp_path, site)
    assert (done.stdout, done.stderr) == ("LazyName []\n", "")


def test_packages_of_a_session_load_nothing_before_it(tmp_path: Path, site: Path) -> None:
    packages = [{"coordinate": "org.example:absent:1", "line": 2}]
    code = "import sys; print([name for name in sys.modules if name.startswith('_holdfast_spark.')])"
    done = run(code, tmp_path, site, HOLDFAST_SPARK=json.dumps({"packages_of_session": packages}))
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_unreachable_repository_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "CENTRAL", "http://127.0.0.1:1/")  # nothing listens there
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.3.0.jar").write_text("")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.delenv("HOLDFAST_SPARK_JARS", raising=False)
    row = {"coordinate": "org.example:absent:1", "line": 2}
    settings = {"file": "spark.yml", "repositories": ["http://127.0.0.1:1/a"], "cache": str(tmp_path)}
    with pytest.raises(packages.CannotProvide, match=r"spark.yml:2: .*org.example:absent:1 .*no repository within 3 s"):
        packages.provide(settings, [row])
    packages.provide(settings, [{**row, "optional": True}])  # and what is left out is remembered
    assert [json.loads(path.read_text())["left_out"] for path in tmp_path.glob("*/resolved.json")] == [
        [row["coordinate"]]
    ]
    monkeypatch.delenv("HOLDFAST_SPARK_JARS")


def test_name_used_without_pyspark_says_what_to_add(tmp_path: Path, site: Path) -> None:
    done = run("import sys; sys.modules['pyspark'] = None; spark.range(3)", tmp_path, site)
    assert done.returncode == 1
    assert "cannot import pyspark" in done.stderr
    assert "add it to the project's packages" in done.stderr


def test_name_is_an_instance_of_what_it_stands_for_and_starts_nothing(tmp_path: Path, site: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("class SparkContext: pass\n")
    (tmp_path / "pyspark" / "sql.py").write_text("class SparkSession: pass\n")
    code = (
        "print(isinstance(sc, str)); from pyspark import SparkContext as C; from pyspark.sql import SparkSession as S\n"
    )
    done = run(f"{code}print(isinstance(sc, C), isinstance(spark, S), isinstance(sc, S))", tmp_path, site)
    assert (done.stdout, done.stderr) == ("False\nTrue True False\n", "")


def test_failure_before_the_first_line_ends_the_run(tmp_path: Path, site: Path) -> None:
    """Python would print it and go on, without authentication and without the packages."""
    done = run("print('reached')", tmp_path, site, HOLDFAST_SPARK='{"packages": [')
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith("holdfast: Spark cannot be prepared: JSONDecodeError: ")


def test_full_cache_of_packages_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.3.0.jar").write_text("")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_SPARK_JARS", raising=False)
    row = {"coordinate": "org.example:thing:1", "line": 2}
    with pytest.raises(packages.CannotProvide, match="the Spark packages cannot be kept in /dev/full"):
        packages.provide({"file": "spark.yml", "cache": "/dev/full"}, [row])


def test_missing_dependency_of_a_package_is_named() -> None:
    output = ":::: UNRESOLVED DEPENDENCIES\n\t\t:: org.gone#gone;9: not found\n"
    problem = packages.Unresolved(["org.example:needs:1"], output)
    row = {"coordinate": "org.example:needs:1", "line": 4}
    text = packages._not_found(problem, {"file": "spark.yml"}, [row])
    assert text.startswith(
        "spark.yml:4: the Spark package org.example:needs:1, or what it needs (org.gone:gone:9), was"
    )


def test_work_of_a_process_is_left_out_in_its_forked_children() -> None:
    done: list[str] = []
    work = forked.not_in_children(done.append)
    child = os.fork()
    if not child:
        work("child")
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    work("own")
    assert done == ["own"]


def test_used_name_becomes_the_real_object(tmp_path: Path, site: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    (tmp_path / "pyspark" / "sql.py").write_text(
        "class Session:\n    answer = 42\nclass Builder:\n    def getOrCreate(self): return Session()\n"
        "class SparkSession:\n    builder = Builder()\n"
    )
    done = run("kept = spark\nprint(spark.answer, type(spark).__name__, kept.answer)", tmp_path, site)
    assert (done.stdout, done.stderr) == ("42 Session 42\n", "")


def test_python_workers_of_spark_get_no_names(tmp_path: Path, site: Path) -> None:
    done = run("print('spark' in dir(__builtins__))", tmp_path, site, PYTHON_WORKER_FACTORY_SECRET="x")
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25), ("9-ea", 9)]
)
def test_java_version_is_read(version: str, major: int) -> None:
    assert java.Java("", version, "").major == major


@pytest.mark.parametrize(
    ("spark", "oldest", "newest"), [("4.3.0", 17, 25), ("4.1.4", 17, 23), ("3.5.9", 8, 21), ("3.2.0", 8, 11)]
)
def test_each_spark_has_its_range_of_java(spark: str, oldest: int, newest: int) -> None:
    assert java.limits(spark) == (oldest, newest)


def make_java(home: Path, version: str, modules: str = "java.base jdk.incubator.vector") -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_java_that_does_not_suit_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = make_java(tmp_path / "old", "1.8.0_392"), make_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert (java.find("4.3.0").home, java.find("3.5.1").home) == (str(new), str(old))


def test_missing_java_is_told_with_what_was_found_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "new", "99.0.1")))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(java.NoJava) as caught:
        java.find("2.4.8")
    assert "Java 99.0.1 in" in str(caught.value)
    assert "apt-get install -y openjdk-8-jre-headless" in str(caught.value)


def test_yarn_without_a_configuration_of_hadoop_is_told_with_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "")
    monkeypatch.setenv("YARN_CONF_DIR", "")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", "17.0.9")))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.3.0.jar").write_text("")
    with pytest.raises(gateway.CannotStart) as caught:
        gateway.prepare({"spark.master": "yarn"})
    assert "no configuration of Hadoop (HADOOP_CONF_DIR, /etc/hadoop/conf)" in str(caught.value)
    assert "sparkMaster: spark://HOST:7077" in str(caught.value)


def test_java_of_a_wheel_is_not_asked_for_a_module_that_it_lacks(tmp_path: Path) -> None:
    home = make_java(tmp_path / "wheel", "25.0.2", modules="java.base java.logging")
    (tmp_path / "scratch").mkdir()
    usable = java.usable_home(java.look(str(home)), str(tmp_path / "scratch"))  # type: ignore[arg-type]
    words = [f"{usable}/bin/java", "-a b", "--add-modules=jdk.incubator.vector", "-c"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "-a b -c\n"


@pytest.mark.parametrize(
    ("text", "size"), [("2g", 2 << 30), ("512M", 512 << 20), ("1gb", 1 << 30), ("7", 7 << 20), ("x", 0)]
)
def test_sizes_are_read_as_spark_does(text: str, size: int) -> None:
    assert memory.size(text) == size


@pytest.mark.parametrize(
    ("text", "of_java"), [("2g", "2g"), ("512M", "512M"), ("2GB", "2097152k"), ("2048", "2097152k"), ("1b", "1024k")]
)
def test_sizes_are_written_as_java_reads_them(text: str, of_java: str) -> None:
    assert memory.of_java(text) == of_java


def executor(name: str, tasks: int = 0, **fields: Any) -> dict[str, Any]:
    return {"id": name, "totalTasks": tasks, "totalDuration": 1000, "totalGCTime": 20, **fields}


@pytest.mark.parametrize(
    ("executors", "master", "verdict"),
    [
        ([executor("driver", 4)], "local[*]", "used"),
        ([executor("driver")], "local[*]", "driver only"),
        ([executor("driver"), executor("0", 3)], "spark://a:7077", "used"),
        ([executor("driver"), executor("0")], "spark://a:7077", "idle"),
        ([executor("driver")], "spark://a:7077", "driver only"),
    ],
)
def test_verdict_of_a_receipt(executors: list[dict[str, Any]], master: str, verdict: str) -> None:
    assert record.receipt(executors, [], master)["verdict"] == verdict


def test_receipt_adds_up_and_names_lost_executors() -> None:
    rows = [executor("driver"), executor("0", 3, failedTasks=1), executor("1", 2, removeReason="exited with code 137")]
    stages: list[dict[str, Any]] = [
        {"status": "COMPLETE", "diskBytesSpilled": 7},
        {"status": "FAILED"},
        {"status": "SKIPPED"},
    ]
    result = record.receipt(rows, stages, "spark://a:7077")
    assert (result["tasks"], result["failed_tasks"], result["stages"], result["failed_stages"]) == (5, 1, 2, 1)
    assert (result["spill_bytes"], result["gc_share"]) == (7, 0.02)
    assert result["lost"] == [{"id": "1", "reason": "exited with code 137"}]


class Silent(Exception):
    """As one of the JVM, which is asked for the text."""

    __module__ = "py4j.protocol"

    def __str__(self) -> str:
        raise ConnectionRefusedError("refused")


def test_reasons_are_sparks_own() -> None:
    class PythonException(Exception):
        __module__ = "pyspark.errors"

    aborted = PythonException(
        "An error occurred while calling o1.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
        "Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 (executor driver): PythonException\n"
        "  File 'etl.py', line 3\nZeroDivisionError: division by zero\n"
    )
    reason = record.reason(aborted, None)
    assert reason.startswith("Spark stage aborted: Task 0 in stage 0.0 failed 1 times")
    assert reason.endswith("ZeroDivisionError: division by zero")
    assert record.reason(PythonException("ZeroDivisionError: division by zero"), None) == (
        "Spark: ZeroDivisionError: division by zero"
    )
    memory = PythonException("java.lang.OutOfMemoryError: Java heap space")
    assert "raise spark.driver.memory" in record.reason(memory, None)
    text = "Job aborted due to stage failure: Task 0 failed 4 times, most recent failure: Lost task 0.3 ({}): {}"
    lost = "ExecutorLostFailure (executor 1 exited) Reason: Command exited with code {}"
    killed = record.reason(PythonException(text.format("executor 1", lost.format(137))), None)
    assert killed.endswith("Command exited with code 137")
    for cause in (lost.format(52), "java.lang.OutOfMemoryError: Java heap space"):
        assert record.reason(PythonException(text.format("host executor 1", cause)), None).endswith(
            "an executor ran out of memory: raise spark.executor.memory"
        )
    local = text.format("host executor driver", "java.lang.OutOfMemoryError: Java heap space")
    assert "raise spark.driver.memory" in record.reason(PythonException(local), None)
    assert record.reason(ValueError("the script's own"), None) == ""
    with subprocess.Popen(["sleep", "60"]) as process:
        process.kill()
        assert "killed by signal 9" in record.reason(ConnectionRefusedError("refused"), process)
        refused = ConnectionRefusedError("refused")
        refused.__context__ = Silent()
        assert "killed by signal 9" in record.reason(refused, process)


def test_jvm_that_ends_before_its_exception_is_asked_for_its_text_is_the_reason() -> None:
    class Py4JJavaError(Exception):
        __module__ = "py4j.protocol"

        def __str__(self) -> str:
            raise ConnectionRefusedError

    with subprocess.Popen(["sh", "-c", "sleep 0.2; exit 52"]) as process:
        reason = record.reason(Py4JJavaError(), process)
    assert reason == "Spark's driver JVM ended with code 52: it ran out of memory; raise spark.driver.memory"
    assert record.reason(Py4JJavaError(), None) == "Spark: Py4JJavaError"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[PYTHON_EXCEPTION] An exception: Traceback (most recent call last):\n...", "stage 3, 4 of its tasks failed"),
        (
            "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times\n...",
            "Task 0 in stage 3.0 failed 4 times",
        ),
    ],
)
def test_aborted_stage_is_named_beside_the_exception_of_its_task(text: str, expected: str) -> None:
    record.note(reason="Spark: ZeroDivisionError: division by zero")
    record._add_stage(
        [{"status": "COMPLETE"}, {"status": "FAILED", "stageId": 3, "numFailedTasks": 4, "failureReason": text}]
    )
    assert record._known.pop("reason") == f"Spark stage aborted: {expected}: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("master", "application", "refused"),
    [
        ("spark://a:7077", "app-20261118073043-0000", False),
        ("spark://a:7077", "spark-application-1794986983224", True),  # as seen with a master of Spark 4.0.1
        ("local[*]", "local-1794974740563", False),
    ],
)
def test_application_without_an_id_of_its_master_was_refused(master: str, application: str, refused: bool) -> None:
    assert context.is_refused(SimpleNamespace(master=master, applicationId=application)) is refused


@pytest.mark.parametrize(
    ("planned", "master", "is_told"),
    [
        ("spark://a:7077", "local[2]", True),
        ("yarn", "local", True),
        ("spark://a:7077", "spark://a:7077", False),
        ("local[*]", "local[2]", False),
        ("local[*]", "spark://a:7077", False),
        ("", "local[*]", False),
    ],
)
def test_script_that_leaves_the_cluster_unused_is_told(planned: str, master: str, is_told: bool) -> None:
    text = context.unused_cluster(planned, master)
    assert bool(text) is is_told
    assert not is_told or (planned in text and master in text)
