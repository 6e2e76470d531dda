"""The template spark-iris as a project, and the result that it has on every kind of target."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import holdfast

if TYPE_CHECKING:
    from conftest import Desk, Result

SCRIPT = "iris_spark.py"
COUNTS = {
    "setosa as setosa": 25,
    "versicolor as versicolor": 24,
    "versicolor as virginica": 1,
    "virginica as versicolor": 4,
    "virginica as virginica": 21,
}


def copy_to(desk: Desk, config: str) -> None:
    """The template's files in the desk's project, with a run configuration for the target ``config``."""
    template = Path(holdfast.__file__).parent / "templates" / "spark-iris"
    for name in (SCRIPT, "iris.csv", "aml_config/spark_dependencies.yml"):
        shutil.copyfile(template / name, desk.project / name)
    text = (template / "aml_config" / "local.runconfig").read_text()
    (desk.project / "aml_config" / f"{config}.runconfig").write_text(text.replace("Target: local", f"Target: {config}"))


def check(desk: Desk, done: Result) -> None:
    assert done.code == 0, done
    assert f"accuracy 0.9333 {COUNTS}\n" in done.text
    assert desk.record()["Accuracy"] == 70 / 75
