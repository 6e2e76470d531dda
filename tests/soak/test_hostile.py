"""A million hostile answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(3600)
def test_a_million_messages_of_a_target_that_lies() -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-s", "--timeout", "3000", "tests/security", "-k", "crash"]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "HOLDFAST_FUZZ_MESSAGES": "1000000"}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()[-3000:]
