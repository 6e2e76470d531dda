"""A kernel that asked for a GPU holds it by the queue: the script of the GPU proof, with simulated GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fakecuda import CARD, FakeCuda
from fakelibrary import HAS_COMPILER
from fakenvml import GPU, FakeGpus

if TYPE_CHECKING:
    from conftest import Desk

ROOT = Path(__file__).resolve().parents[2]
PROOF = ROOT / "tools" / "gpu_proof"
sys.path.insert(0, str(PROOF))

import kernel_proof  # noqa: E402

CELL = "import os\nprint('visible:', os.environ['CUDA_VISIBLE_DEVICES'])\n"
pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")


def test_kernel_holds_its_gpu_until_jupyter_shuts_it_down(desk: Desk, jupyter: Path, tmp_path: Path) -> None:
    gpus, cuda = FakeGpus(tmp_path, GPU), FakeCuda(tmp_path, CARD)
    cell = tmp_path / "cell.py"
    cell.write_text(CELL)
    env = {
        **desk.env,
        "LD_LIBRARY_PATH": f"{gpus.folder}:{cuda.folder}",
        "HOLDFAST_GPU_LOCKS": str(tmp_path / "locks"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    argv = [jupyter, PROOF / "kernel_proof.py", desk.project, cell]
    done = subprocess.run(argv, cwd=desk.project, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    findings = json.loads(done.stdout)
    assert findings["cell"]["text"] == f"visible: {GPU.uuid}\n"
    assert [what for what, holds in kernel_proof.verdicts(findings) if not holds] == []
    assert findings["kernel"]["receipt"]["gpus"][0]["uuid"] == GPU.uuid
