"""What a submit sends about Spark, from the files of a project; nothing of Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.amlconfig.compute import read_compute
from holdfast.amlconfig.types import ComputeTarget, Finding, RunConfig
from holdfast.engine.submit import spark_request
from holdfast.errors import ConfigError
from holdfast.ports import RuntimeParts
from holdfast.runtimes.spark import SparkRuntime
from holdfast.target_lookup import Chosen

if TYPE_CHECKING:
    from pathlib import Path

STOCK = """# Spark configuration.\tTabs\tin comments are harmless.
configuration:
  "spark.app.name": "Azure ML Experiment"
  "spark.yarn.maxAppAttempts": 1

repositories:
  - "https://mmlspark.azureedge.net/maven"
packages:
  - group: "com.microsoft.ml.spark"
    artifact: "mmlspark_2.11"
    version: "0.7.91"
  - group: "com.microsoft.sqlserver"
    artifact: "mssql-jdbc"
    version: "6.2.1.jre8"
"""
USES_SPARK = "from pyspark.sql import SparkSession\n"


def requested(root: Path, text: str, script: str = USES_SPARK, **target: Any) -> tuple[dict[str, Any], list[Finding]]:
    (root / "aml_config").mkdir(exist_ok=True)
    (root / "aml_config" / "spark_dependencies.yml").write_bytes(text.encode())
    (root / "etl.py").write_text(script)
    findings: list[Finding] = []
    compute = ComputeTarget(name="here", type="local", **target)
    spark = spark_request.requested(str(root), Chosen(RunConfig("here"), compute, []), findings.extend, "etl.py")
    return spark, findings


def refusal(root: Path, text: str, script: str = USES_SPARK, **target: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        requested(root, text, script, **target)
    return caught.value


def test_stock_file_loses_its_retired_package_with_one_warning(tmp_path: Path) -> None:
    spark, findings = requested(tmp_path, STOCK)
    assert spark["conf"] == {"spark.app.name": "Azure ML Experiment", "spark.yarn.maxAppAttempts": "1"}
    jdbc = {"coordinate": "com.microsoft.sqlserver:mssql-jdbc:6.2.1.jre8", "line": 12, "optional": True}
    assert (spark["master"], spark["packages"]) == ("local[*]", [jdbc])
    assert [(finding.line, "mmlspark_2.11:0.7.91 is left out" in finding.message) for finding in findings] == [
        (9, True)
    ]


def test_project_that_imports_the_retired_package_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, STOCK, "import os\n\nimport mmlspark\n")
    assert error.where == "etl.py:3"
    assert "mmlspark" in error.what
    assert "aml_config/spark_dependencies.yml:9" in error.what


def test_notebook_that_imports_the_retired_package_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "old.ipynb").write_text('{"cells": [{"source": [\n  "import os\\n",\n  "from mmlspark import x"]}]}\n')
    assert refusal(tmp_path, STOCK, 'text = [\n"import mmlspark"]\n').where == "old.ipynb:3"


@pytest.mark.parametrize(
    ("script", "is_early"),
    [("print('plain')\n", False), ("import helper\n", True), ("from parts import x\n", True), ("import os\n", False)],
)
def test_packages_of_a_script_without_spark_wait_for_a_session(tmp_path: Path, script: str, is_early: bool) -> None:
    (tmp_path / "helper.py").write_text(USES_SPARK)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "x.py").write_text("def f(sc):\n    return sc.parallelize([1])\n")
    spark, _ = requested(tmp_path, STOCK, script)
    assert ("packages" in spark, "packages_of_session" in spark) == (is_early, not is_early)


def test_keys_that_are_not_sparks_are_named_and_left_out(tmp_path: Path) -> None:
    text = "version: 2\r\nconfiguration:\r\n  maximizeResourceAllocation: true\r\n  spark.task.maxFailures:\t3\r\n"
    spark, findings = requested(tmp_path, text)
    assert spark["conf"] == {"spark.task.maxFailures": "3"}
    assert [(finding.line, finding.message) for finding in findings if "Spark" in finding.message] == [
        (3, "maximizeResourceAllocation is not a setting of Spark and is left out")
    ]


@pytest.mark.parametrize("text", ["configuration:\n", "configuration: {}\n", "configuration: null\n", ""])
def test_empty_configuration_says_nothing(tmp_path: Path, text: str) -> None:
    assert requested(tmp_path, text) == ({"master": "local[*]"}, [])


def test_configuration_that_is_a_list_is_refused_with_its_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, "configuration:\n  - spark.app.name\n")
    assert error.where.startswith("aml_config/spark_dependencies.yml:2")


def test_package_without_a_version_is_refused_with_its_line(tmp_path: Path) -> None:
    error = refusal(tmp_path, "packages:\n  - group: org.example\n    artifact: thing\n")
    assert error.where.startswith("aml_config/spark_dependencies.yml:2")
    assert "no version" in error.what


def test_master_in_the_file_must_fit_the_target(tmp_path: Path) -> None:
    assert requested(tmp_path, "configuration:\n  spark.master: local[3]\n")[0] == {"master": "local[3]"}
    error = refusal(tmp_path, "configuration:\n  spark.master: yarn\n")
    assert error.where == "aml_config/spark_dependencies.yml:2"
    assert "spark.master is yarn" in error.what


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4, 3]", "local-cluster[2, 1, 1024]"])
def test_local_master_is_accepted(tmp_path: Path, master: str) -> None:
    assert requested(tmp_path, f"configuration:\n  spark.master: {master}\n")[0] == {"master": master}


@pytest.mark.parametrize(
    "master", ["local[", "local[*", "local[x]", "local[-1]", "local[0]", "local[²]", "locale", "local[" + "9" * 5000]
)
def test_malformed_local_master_is_refused_with_its_line(tmp_path: Path, master: str) -> None:
    error = refusal(tmp_path, f"configuration:\n  spark.master: {master}\n")
    assert error.where == "aml_config/spark_dependencies.yml:2"
    assert "malformed" in error.what
    assert len(error.what) < 200


@pytest.mark.parametrize("memory", ["²g", "٣g", "9" * 5000 + "g", "9" * 4000])
def test_driver_memory_of_odd_digits_is_refused_with_its_line(tmp_path: Path, memory: str) -> None:
    error = refusal(tmp_path, f"configuration:\n  spark.driver.memory: {memory}\n")
    assert error.where == "aml_config/spark_dependencies.yml:2"
    assert "not a size" in error.what
    assert len(error.what) < 200


@pytest.mark.parametrize(("memory", "limit"), [("900g", None), ("2g", 1 << 30), ("lots", None)])
def test_driver_memory_beyond_machine_or_container_is_refused(tmp_path: Path, memory: str, limit: int | None) -> None:
    error = refusal(tmp_path, f"configuration:\n  spark.driver.memory: {memory}\n", memory=limit)
    assert error.where == "aml_config/spark_dependencies.yml:2"
    assert f"spark.driver.memory is {memory}" in error.what.replace("'", "")


def cluster(**fields: Any) -> dict[str, Any]:
    compute = ComputeTarget(name="sp1", type="cluster", **fields)
    config = RunConfig("sp1", spark_dependencies_file="aml_config/spark_dependencies.yml")
    return spark_request.requested("/nowhere", Chosen(config, compute, []), lambda findings: None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"address": "spark://10.0.0.5:7077"}, {"master": "spark://10.0.0.5:7077"}),
        ({"address": "spark://a:7077,b:7077"}, {"master": "spark://a:7077,b:7077"}),
        ({"address": "sc://host:15002"}, {"remote": "sc://host:15002"}),
        ({"address": "head.example.org"}, {"master": "yarn", "deploy_mode": "client"}),
        ({"address": "head", "extra": {"sparkMaster": "spark://m:7077"}}, {"master": "spark://m:7077"}),
    ],
)
def test_cluster_is_named_by_its_file(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert cluster(**fields) == expected


@pytest.mark.parametrize(
    "address", ["spark://", "spark://a", "spark://a b:1", "sc://", "http://a:8080", "spark://a:70770000"]
)
def test_malformed_master_is_refused(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(address=address)
    assert "spark://HOST:7077" in caught.value.hint


def test_what_is_not_known_here_is_checked_before_the_first_line(tmp_path: Path) -> None:
    text = "configuration:\n  spark.driver.memory: 2g\n"
    line = {"memory_line": "aml_config/spark_dependencies.yml:2"}
    assert "memory_line" not in requested(tmp_path, text)[0]  # this machine has been asked
    assert "memory_line" not in requested(tmp_path, text, memory=4 << 30)[0]
    for kind in ("remote", "cluster"):
        compute = ComputeTarget(name="here", type=kind, address="m")
        chosen = Chosen(RunConfig("here"), compute, [])
        spark = spark_request.requested(str(tmp_path), chosen, lambda findings: None, "etl.py")
        assert {key: value for key, value in spark.items() if key == "memory_line"} == line
    compute = ComputeTarget(name="here", type="cluster", address="spark://m:7077")
    for script, is_asked in ((USES_SPARK, True), ("print('plain')", False)):
        (tmp_path / "etl.py").write_text(script)
        spark = spark_request.requested(
            str(tmp_path), Chosen(RunConfig("here"), compute, []), lambda findings: None, "etl.py"
        )
        assert spark.get("uses_spark", False) is is_asked


def test_driver_of_a_master_is_here_and_that_of_a_head_node_is_there() -> None:
    here, there = (ComputeTarget(name="a", type="cluster", address=address) for address in ("spark://a:7077", "a"))
    assert (here.kind.is_remote, there.kind.is_remote) == (False, True)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_yarn_deploy_mode_gives_the_options_of_spark_submit(mode: str) -> None:
    spark = cluster(address="head", yarn_deploy_mode=mode)
    spark["conf"] = {"spark.executor.memory": "2g"}
    runtime = SparkRuntime(RuntimeParts("python", spark=spark))
    expected = {
        "client": ("python", "etl.py", "--day", "3"),
        "cluster": (
            *("spark-submit", "--master", "yarn", "--deploy-mode", "cluster"),
            *("--conf", "spark.executor.memory=2g", "etl.py", "--day", "3"),
        ),
    }
    assert runtime.argv("etl.py", ("--day", "3")) == expected[mode]


def test_named_file_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    findings: list[Finding] = []
    config = RunConfig("here", spark_dependencies_file="aml_config/other.yml")
    compute = ComputeTarget(name="here", type="local")
    assert spark_request.requested(str(tmp_path), Chosen(config, compute, []), findings.extend) == {
        "master": "local[*]"
    }
    assert "aml_config/other.yml" in findings[0].message


def test_setting_without_a_value_is_named_and_left_out(tmp_path: Path) -> None:
    spark, findings = requested(tmp_path, "configuration:\n  spark.driver.memory:\n  spark.app.name: ''\n")
    assert spark["conf"] == {"spark.app.name": ""}
    assert [(finding.line, finding.message) for finding in findings] == [
        (2, "spark.driver.memory has no value and is left out")
    ]


@pytest.mark.parametrize(
    "address",
    ["spark://nowhere", "spark://a:99999", "spark://a:7077/x", "sc://a:b", "k8s://https://a", "sc://a:1/;token=t"],
)
def test_malformed_master_is_refused_with_the_line_of_its_file(tmp_path: Path, address: str) -> None:
    file = tmp_path / "sp1.compute"
    file.write_text(f"type: cluster\naddress: {address}\n")
    target, findings = read_compute(file)
    assert target is None
    assert [(finding.severity, finding.line) for finding in findings] == [("error", 2)]
    assert findings[0].hint


@pytest.mark.parametrize("address", ["spark://a:7077", "spark://a:7077,b-1:7078", "spark://[::1]:7077", "sc://a"])
def test_master_that_is_well_formed_is_read(tmp_path: Path, address: str) -> None:
    file = tmp_path / "sp1.compute"
    file.write_text(f"type: cluster\naddress: '{address}'\n")
    target, findings = read_compute(file)
    assert target is not None
    assert (target.address, findings) == (address, [])


def test_malformed_master_of_a_head_node_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "sp1.compute"
    file.write_text("type: cluster\naddress: head\nusername: ada\nsparkMaster: spark:/h\n")
    assert [(finding.severity, finding.line) for finding in read_compute(file)[1]] == [("error", 4)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", "1.0,org.example:other:2"),
        ("group", "org.example:other"),
        ("group", "org\\nexample"),
        ("artifact", "../../thing"),
        ("artifact", "a thing"),
        ("group", "--conf"),
        ("version", "\u0661.0"),
    ],
)
def test_malformed_name_of_a_package_is_refused_with_its_line(tmp_path: Path, name: str, value: str) -> None:
    rows = {"group": "org.example", "artifact": "thing_2.13", "version": "1.0", name: value}
    text = "packages:\n" + "".join(
        f'  {"-" if key == "group" else " "} {key}: "{text}"\n' for key, text in rows.items()
    )
    error = refusal(tmp_path, text)
    assert f"is not the {name} of a package" in str(error)
    assert error.where.endswith(f"spark_dependencies.yml:{2 + list(rows).index(name)}:{5 + len(name) + 2}")


@pytest.mark.parametrize("version", ["6.2.1.jre8", "1.0-SNAPSHOT", "1.+", "1.0+build", "[1.0,2.0)"])
def test_versions_of_packages_are_kept_as_written(tmp_path: Path, version: str) -> None:
    text = f'packages:\n  - group: a\n    artifact: b\n    version: "{version}"\n'
    assert requested(tmp_path, text)[0]["packages"][0]["coordinate"] == f"a:b:{version}"


@pytest.mark.parametrize("address", ["", "null", "foo", "/tmp/m2", "https://a b/m2", "https://a\\n/m2"])
def test_repository_without_an_address_is_refused_with_its_line(tmp_path: Path, address: str) -> None:
    error = refusal(tmp_path, f'repositories:\n  - "https://a.example.org/m2"\n  - "{address}"\n')
    assert "is not the address of a repository" in str(error)
    assert error.where.endswith("spark_dependencies.yml:3:5")


@pytest.mark.parametrize("key", ["spark.a=b", "spark.a b", "spark.a\\nspark.master", "spark.", ""])
def test_name_that_spark_would_take_for_another_setting_is_left_out(tmp_path: Path, key: str) -> None:
    spark, findings = requested(tmp_path, f'configuration:\n  "{key}": 1\n  spark.x: 2\n')
    assert spark["conf"] == {"spark.x": "2"}
    assert [(finding.line, "is left out" in finding.message) for finding in findings] == [(2, True)]


def test_value_with_a_nul_is_refused(tmp_path: Path) -> None:
    assert "contains a NUL" in str(refusal(tmp_path, 'configuration:\n  spark.app.name: "a\\0b"\n'))


@pytest.mark.parametrize("name", ["spark.driver.memory", "spark.executor.memory"])
@pytest.mark.parametrize(("value", "message"), [("300m", "Spark needs at least 450 MB"), ("lots", "is not a size")])
def test_memory_that_spark_refuses_is_refused_with_its_line(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    error = refusal(tmp_path, f"configuration:\n  {name}: {value}\n")
    assert message in str(error)
    assert error.where.endswith("spark_dependencies.yml:2")


def test_memory_is_sent_as_java_reads_it(tmp_path: Path) -> None:
    spark, _ = requested(tmp_path, "configuration:\n  spark.driver.memory: 1GB\n  spark.executor.memory: 1024\n")
    assert spark["conf"] == {"spark.driver.memory": "1048576k", "spark.executor.memory": "1048576k"}


def test_key_of_a_cluster_without_a_value_is_as_if_absent() -> None:
    assert ComputeTarget(name="head", type="cluster", extra={"sparkMaster": None}).own_settings == {}
