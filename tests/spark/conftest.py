"""Desks whose scripts run in a Python with PySpark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from spark import quick_java

if TYPE_CHECKING:
    from conftest import Desk, Result

ROOT = Path(__file__).resolve().parents[2]
START_S = 400  # a JVM on a busy machine


class SparkDesk:
    """``submit`` runs a script of the project with no Framework line in its run configuration.

    Spark takes options apart at spaces, so the path of the store has one.
    """

    def __init__(self, desk: Desk, python: Path) -> None:
        self.desk = desk
        self.python = python
        desk.home = desk.home.with_name("a store")
        desk.env["HOLDFAST_HOME"] = str(desk.home)
        desk.env["PATH"] = f"{quick_java.home()}/bin:{desk.env['PATH']}"
        self.config = desk.project / "aml_config"
        self.config.mkdir(exist_ok=True)
        (self.config / "local.runconfig").write_text("Target: local\nSparkDependenciesFile: aml_config/spark.yml\n")
        (self.config / "spark.yml").write_text("")

    def submit(self, script: str, *options: str, name: str = "etl.py", config: str = "local") -> Result:
        self.desk.script(script, name)
        words = ("submit", "-c", config, "--python", str(self.python), *options, name)
        return self.desk.holdfast(*words, limit=START_S)


@pytest.fixture(scope="session")
def pyspark() -> Path:
    quick_java.require()
    return libraries.interpreter(ROOT, libraries.SPARK)


@pytest.fixture
def spark(desk: Desk, pyspark: Path) -> SparkDesk:
    return SparkDesk(desk, pyspark)
