"""Every field of every answer, changed in every way: as many cases as HOLDFAST_SOAK_ANSWERS says, 0 for all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(20_000)
def test_all_fields_of_all_answers() -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-s", "--timeout", "20000", "tests/security/test_answer_fields.py"]
    env = {**os.environ, "HOLDFAST_FUZZ_ANSWERS": os.environ.get("HOLDFAST_SOAK_ANSWERS", "0")}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()[-3000:]
