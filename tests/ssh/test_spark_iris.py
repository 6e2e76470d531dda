"""The template spark-iris on a machine over SSH."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from spark import iris, quick_java
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ssh.conftest import Laptop

pytestmark = pytest.mark.timeout(900)  # seconds on a busy machine, where a JVM may take a minute to start
ROOT = Path(__file__).resolve().parents[2]
THERE = "/opt/spark-iris"


@pytest.fixture
def lab() -> Iterator[Lab]:
    quick_java.require()
    packages = libraries.interpreter(ROOT, libraries.SPARK).parents[2]
    try:
        with Lab(hosts=("gpu1",), shares={THERE: packages, quick_java.THERE: quick_java.home()}) as lab:
            quick_java.put_on_path(lab["gpu1"])
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_template_has_the_same_result_over_ssh(attached: Laptop) -> None:
    iris.copy_to(attached, "lab1")
    words = ("submit", "-c", "lab1", "--python", f"{THERE}/venv/bin/python", iris.SCRIPT)
    iris.check(attached, attached.holdfast(*words, limit=400))
    record = attached.record()["spark"]
    assert (record["master"], record["receipt"]["verdict"]) == ("local[*]", "used")
    assert record["ui"].startswith("http://127.0.0.1:")


def test_driver_memory_above_that_of_the_machine_is_refused_before_the_first_line(attached: Laptop) -> None:
    config = attached.project / "aml_config"
    (config / "lab1.runconfig").write_text("Target: lab1\n")
    (config / "spark_dependencies.yml").write_text("configuration:\n  spark.driver.memory: 900g\n")
    attached.script("print('first line')")
    done = attached.holdfast("submit", "-c", "lab1", "--python", f"{THERE}/venv/bin/python", "train.py")
    assert done.code == 65
    assert "first line" not in done.text
    expected = "aml_config/spark_dependencies.yml:2: spark.driver.memory is 900g, and this machine or container has "
    assert attached.record()["reason"].startswith(expected)
