"""Installation and first steps on a machine that has nothing but Debian's Python, pip, git and make."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
NAMESPACE = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]
NO_ROOT_COULD_BE_MADE = 3  # exit code of tools/fresh.sh


@pytest.fixture
def can_make_root() -> None:
    if not sys.platform.startswith("linux") or os.geteuid():
        pytest.skip("NOT TESTED: only root on Linux can make a fresh root")
    if not (CHECKOUT / ".git").exists():
        pytest.skip("NOT TESTED: a fresh root gets a clone, and this is not a checkout of git")
    tried = subprocess.run(
        [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"NOT TESTED: nothing can be mounted here, as in a chroot: {tried.stderr.strip()}")


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("can_make_root")
def test_demo_and_smoke_tests_pass_in_a_fresh_root() -> None:
    command = ["sh", str(CHECKOUT / "tools" / "fresh.sh"), "demo", "smoke"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MAKE", "MFLAGS"))}
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, check=False, text=True, env=env, **pipes)
    if done.returncode == NO_ROOT_COULD_BE_MADE:
        pytest.skip(f"NOT TESTED: no fresh root could be made: {done.stdout[-500:]}")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^holdfast \d+\.\d+", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.count("✓ Completed") == 2, done.stdout
    assert re.search(r"^2 passed in ", done.stdout, re.MULTILINE), done.stdout
