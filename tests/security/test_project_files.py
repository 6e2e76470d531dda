"""Files of a project that are links, pipes, devices, folders, huge or vanishing: told, and nothing worse."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CASES = int(os.environ.get("HOLDFAST_FUZZ_PROJECT_FILES", "200"))


@pytest.mark.timeout(max(300, CASES * 5))
def test_no_file_of_a_project_harms_or_hangs_a_command() -> None:
    seed = int(os.environ.get("HOLDFAST_FUZZ_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    print(f"HOLDFAST_FUZZ_SEED={seed}")
    # A busy machine makes everything slow; only what waits for something is still there after this time.
    done = _generator(str(CASES), str(seed), HOLDFAST_FUZZ_HANGS_S=os.environ.get("HOLDFAST_FUZZ_HANGS_S", "20"))
    assert done.returncode == 0, done.stdout[-8000:]


def test_generator_finds_planted_bugs() -> None:
    """It reads a device or a pipe, copies what a link leads to, writes outside, fails, or says 70."""
    done = _generator("planted", "0", HOLDFAST_FUZZ_HANGS_S="2")
    assert done.returncode == 0, done.stdout[-8000:]


def _generator(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own without threads, because it forks for every case."""
    argv = [sys.executable, "-m", "security.project_files", *words]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(argv, cwd=TESTS, env={**os.environ, **env}, text=True, check=False, **both)  # type: ignore[call-overload, no-any-return]
