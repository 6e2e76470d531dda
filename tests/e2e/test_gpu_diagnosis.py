"""A run that leaves its GPU idle because of the torch in its own environment, on a machine with a card of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakecuda import CARD, HAS_COMPILER, FakeCuda
from fakenvml import GPU, FakeGpus

if TYPE_CHECKING:
    from conftest import Desk

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
DIAGNOSE = """
import json, sys
from holdfast.engine.runs import gpu_diagnosis
from holdfast.store import runs
from holdfast.store.home import open_home
home = open_home()
print(json.dumps(gpu_diagnosis.lines_for(home, runs.read(home, sys.argv[1]))))
"""


def diagnose(desk: Desk) -> list[str]:
    argv = [sys.executable, "-c", DIAGNOSE, str(desk.record()["uid"])]
    found: list[str] = json.loads(subprocess.run(argv, env=desk.env, stdout=subprocess.PIPE, check=True).stdout)
    return found


@pytest.fixture
def environment(desk: Desk, tmp_path: Path) -> Path:
    """The packages of a Python that the target ``box`` names; the machine has a card."""
    gpus, cuda = FakeGpus(tmp_path, GPU), FakeCuda(tmp_path, CARD)
    desk.env |= {"LD_LIBRARY_PATH": f"{gpus.folder}:{cuda.folder}", "HOLDFAST_GPU_LOCKS": str(tmp_path / "locks")}
    place = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    config = desk.project / "aml_config"
    config.mkdir()
    lines = ["type: local", f"pythonLocation: {place}/bin/python", "userManagedEnvironment: true", ""]
    (config / "box.compute").write_text("\n".join(lines))
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "torch").mkdir()
    return packages / "torch"


def test_a_torch_for_processors_is_named_with_the_line_to_write(desk: Desk, environment: Path) -> None:
    (environment / "version.py").write_text("__version__ = '2.5.1+cpu'\ncuda = None\n")
    (desk.project / "requirements.txt").write_text("numpy\ntorch==2.5.1+cpu\n")
    desk.script("print('no GPU for me')")
    result = desk.holdfast("submit", "-c", "box", "--gpus", "1", "train.py")
    assert result.code == 0, result
    assert desk.record()["gpu"]["verdict"] == "idle"
    where, fix = diagnose(desk)
    assert where == "requirements.txt:2: torch 2.5.1+cpu is built without CUDA and cannot use the GPU"
    assert fix == "    try: write torch==2.5.1"


def test_a_model_that_is_not_moved_is_named(desk: Desk, environment: Path) -> None:
    (environment / "version.py").write_text("__version__ = '2.5.1+cu124'\ncuda = '12.4'\n")
    (environment / "__init__.py").write_text("class nn:\n    class Module: pass\n")
    desk.script("import torch\n\nclass Net(torch.nn.Module):\n    pass\n\nnet = Net()\n")
    result = desk.holdfast("submit", "-c", "box", "--gpus", "1", "train.py")
    assert result.code == 0, result
    where, fix = diagnose(desk)
    assert where.startswith("train.py:6: ")
    assert 'write net = Net().to("cuda")' in fix


def test_what_cannot_be_read_any_more_costs_the_advice_only(desk: Desk, environment: Path) -> None:
    (environment / "version.py").write_text("__version__ = '2.5.1+cpu'\ncuda = None\n")
    desk.script("print('no GPU for me')")
    assert desk.holdfast("submit", "-c", "box", "--gpus", "1", "train.py").code == 0
    assert diagnose(desk) != []
    os.rename(desk.home / "objects", desk.home / "gone")
    assert diagnose(desk) == []
