"""Where everything is to be tested, a lab that cannot start is a failure and not a skipped test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SKIPPING = """
import pytest
import subprocess, sys
from sshlab import NoSuchPython, NotPossibleHere, Unavailable

@pytest.fixture
def lab():
    try:
        raise Unavailable("sshd does not start")
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")

def test_in_the_lab(lab): pass

def test_of_an_installation():
    try:
        subprocess.run([sys.executable, "-c", "import sys; sys.exit(1)"], check=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT TESTED: nothing could be installed: {error}")

def test_in_a_chroot():
    try:
        raise NotPossibleHere("a chroot has no namespaces")
    except NotPossibleHere as why:
        pytest.skip(f"NOT TESTED: {why}")

def test_of_another_python():
    try:
        raise NoSuchPython("there is no Python 3.6")
    except NoSuchPython as why:
        pytest.skip(f"NOT TESTED: {why}")
"""


@pytest.mark.parametrize("variable", ["REQUIRE_PACKAGES", "CI", ""])
def test_lab_that_does_not_start_is_an_error_where_labs_are_required(tmp_path: Path, variable: str) -> None:
    (tmp_path / "test_labs.py").write_text(SKIPPING)
    env = {name: value for name, value in os.environ.items() if name not in ("REQUIRE_PACKAGES", "CI")}
    env.update({"PYTHONPATH": str(TESTS), **({variable: "1"} if variable else {})})
    options = ("-q", "-p", "conftest", "-p", "no:cacheprovider", "--rootdir", ".", "-c", "/dev/null")
    argv = [sys.executable, "-m", "pytest", *options, "test_labs.py"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    expected = (1, "1 failed, 2 skipped, 1 error in") if variable else (0, "4 skipped in")
    assert (done.returncode, expected[1] in done.stdout) == (expected[0], True), done.stdout + done.stderr
    assert "sshd does not start" in done.stdout
