"""A script of the original's time, submitted as it is: its imports work, its values and files are in the history."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lab.pythons import OLDEST, find_python

if TYPE_CHECKING:
    from conftest import Desk

SCRIPT = """
import os, sys
from azureml.logging import get_azureml_logger
from azureml.core import Run
from azureml_sdk import data_collector
print("%d.%d" % sys.version_info[:2])
run_logger = get_azureml_logger()
os.chdir(os.sep)
run_logger.log("Accuracy", float(sys.argv[1])).wait()
run_logger.log("done", True)
run_logger.log("note", "caf\\u00e9")
run_logger.log("f1: macro avg.", [0.25, 0.5])
for epoch in range(3):
    data_collector.current_run().log("loss", 1 / (epoch + 1))
run_logger.upload("outputs/caf\\u00e9/summary.txt", "all well")
run = Run.get_context(allow_offline=False)
run.log_row("confusion", seen=1, taken=2)
run.tag("run", run.id)
"""


def interpreters() -> list[str]:
    """This Python, and the oldest supported one where it is installed."""
    return [sys.executable, *filter(None, [find_python(OLDEST)])]


def use(desk: Desk, python: str) -> None:
    desk.script(f"pythonLocation: {python}\ntype: local\n", "aml_config/local.compute")
    desk.script("Framework: Python\nTarget: local\n", "aml_config/local.runconfig")


@pytest.mark.parametrize("python", interpreters())
def test_values_and_files_of_an_old_script_are_in_the_history(desk: Desk, python: str) -> None:
    use(desk, python)
    desk.script(SCRIPT)
    result = desk.submit("train.py", "0.75")
    assert result.code == 0, result.text + result.err
    if "3.6." in python:
        assert "\n3.6\n" in result.text
    record = desk.record()
    assert record["Accuracy"] == 0.75
    assert record["done"] is True
    assert record["note"] == "café"
    assert record["f1: macro avg."] == [0.25, 0.5]
    assert record["loss"] == [1.0, 0.5, 1 / 3]
    assert record["confusion"] == {"seen": 1, "taken": 2}
    assert record["tag.run"] == record["run_id"]
    kept = desk.holdfast("history", "info", "-r", "last", "--artifact", "outputs/café/summary.txt")
    assert kept.out == b"all well"


def test_an_azureml_of_the_project_itself_is_the_one_that_is_imported(desk: Desk) -> None:
    desk.script("def get_azureml_logger():\n    return 'of the project'\n", "azureml/logging.py")
    desk.script("", "azureml/__init__.py")
    desk.script("from azureml.logging import get_azureml_logger; print(get_azureml_logger())")
    assert "of the project" in desk.submit("train.py").text


def test_no_script_finds_our_azureml_outside_a_run(desk: Desk) -> None:
    code = "import importlib.util as u, sys; sys.exit(any(map(u.find_spec, ['azureml', 'azureml_sdk'])))"
    desk.script(code)
    assert desk.submit("train.py").code == 1
    assert subprocess.run([sys.executable, "train.py"], cwd=desk.project, env=desk.env, check=False).returncode == 0


def test_script_that_relies_on_a_spark_session_without_an_import_gets_a_hint(desk: Desk) -> None:
    desk.script("print(sc.version)\n")
    failed = desk.submit("train.py")
    assert failed.code == 1
    assert "sc is there without an import only in runs with Framework: PySpark" in failed.err
    desk.script("raise NameError(\"name 'other' is not defined\")\n")
    assert "PySpark" not in desk.submit("train.py").err


def test_script_that_lacks_a_library_of_the_system_gets_the_package(desk: Desk) -> None:
    desk.script("import ctypes\nctypes.CDLL('libmpi_cxx.so.1.test')\n")
    assert "OpenMPI" not in desk.submit("train.py").err, "no such library is known"
    desk.script("raise ImportError('libmpi_cxx.so.1: cannot open shared object file: No such file or directory')\n")
    failed = desk.submit("train.py")
    assert failed.code == 1
    assert "CNTK needs OpenMPI, and there is no libmpi_cxx.so.1\n" in failed.err
    assert "on Debian and Ubuntu, on local: apt-get install libopenmpi3 openmpi-bin" in failed.err
