"""Hostile files and fields of a project, target or archive, generated: told, and nothing worse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seeds

TESTS = Path(__file__).resolve().parents[1]
CASES = int(os.environ.get("HOLDFAST_FUZZ_PROJECT_FILES", "200"))
FIELDS = int(os.environ.get("HOLDFAST_FUZZ_FIELDS", "200"))


@pytest.mark.timeout(max(300, CASES * 5))
def test_no_file_of_a_project_harms_or_hangs_a_command() -> None:
    seed = seeds.seed()
    # A busy machine makes everything slow; only what waits for something is still there after this time.
    done = _generator(str(CASES), str(seed), HOLDFAST_FUZZ_HANGS_S=os.environ.get("HOLDFAST_FUZZ_HANGS_S", "10"))
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.mark.timeout(max(300, FIELDS * 5))
def test_no_field_of_a_document_leads_a_command_out_of_store_and_project() -> None:
    seed = seeds.seed()
    done = _generator(str(FIELDS), str(seed), module="hostile_fields", HOLDFAST_FUZZ_HANGS_S="10")
    assert done.returncode == 0, done.stdout[-8000:]


def test_generator_of_files_finds_planted_bugs() -> None:
    """It reads a device or a pipe, copies what a link leads to, writes outside, fails, or says 70."""
    done = _generator("planted", "0", HOLDFAST_FUZZ_HANGS_S="2")
    assert done.returncode == 0, done.stdout[-8000:]


def test_generator_of_fields_finds_commands_that_do_not_check_names() -> None:
    done = _generator("planted", "0", module="hostile_fields", HOLDFAST_FUZZ_HANGS_S="10")
    assert done.returncode == 0, done.stdout[-8000:]


def _generator(*words: str, module: str = "project_files", **env: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own without threads, because it forks for every case."""
    argv = [sys.executable, "-m", f"security.{module}", *words]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(argv, cwd=TESTS, env={**os.environ, **env}, text=True, check=False, **both)  # type: ignore[call-overload, no-any-return]
