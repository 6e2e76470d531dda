"""Tens of thousands of project files that are no plain files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(6 * 3600)
def test_thirty_five_thousand_hostile_files_and_fields() -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-s", "--timeout", "20000", "tests/security/test_project_files.py"]
    env = {**os.environ, "HOLDFAST_FUZZ_PROJECT_FILES": "20000", "HOLDFAST_FUZZ_FIELDS": "15000"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()[-6000:]
