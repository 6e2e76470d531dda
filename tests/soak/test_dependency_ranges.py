"""The lowest and the highest version of every library that pyproject.toml allows."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What reads requirements, YAML and TOML, evaluates --query, reads GPUs, draws PNG and serves MCP.
TESTS = (
    *("unit/test_env_*.py", "unit/test_amlconfig_*.py", "unit/test_cli_output.py", "unit/test_drawing*.py"),
    *("unit/test_gpu.py", "e2e/test_mcp.py"),
)
EXTRAS = "mcp,mlflow,parquet,png,remote"  # the other one, notebook, has a test of its own
RUNS_TESTS = ("hypothesis", "pytest", "pytest-timeout")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_both_ends_of_every_range_pass_the_tests_that_use_it(tmp_path: Path, resolution: str) -> None:
    """The lowest on Python 3.10 where there is one, which alone needs tomli."""
    older = [*map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python")), shutil.which("python3.10") or ""]
    base = next(filter(None, older), sys.executable) if resolution != "highest" else sys.executable
    uv, python = str(Path(sys.executable).with_name("uv")), str(tmp_path / "venv" / "bin" / "python")
    install = [uv, "pip", "install", "-q", "--python", python]
    subprocess.run([uv, "venv", "-q", "--python", base, str(tmp_path / "venv")], check=True)
    subprocess.run([*install, "--resolution", resolution, "--editable", f"{ROOT}[{EXTRAS}]"], check=True)
    subprocess.run([*install, *RUNS_TESTS], check=True)
    paths = [str(path) for pattern in TESTS for path in sorted((ROOT / "tests").glob(pattern))]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout
    (tmp_path / "project").mkdir()
    environ = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "store")}
    command = [python, str(ROOT / "tests/soak/extras_in_use.py")]
    used = subprocess.run(
        command, cwd=tmp_path / "project", env=environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert used.returncode == 0, used.stdout[-5000:] + used.stderr[-2000:]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_both_ends_of_the_range_of_ipykernel_run_on_targets(resolution: str) -> None:
    version = end_of_range("notebook", resolution)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/notebook/test_kernel_local.py"]
    environ = {**os.environ, "HOLDFAST_TEST_IPYKERNEL": version}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, f"ipykernel {version}: {done.stdout[-5000:]}{done.stderr[-2000:]}"
    assert " skipped" not in done.stdout, f"ipykernel {version}: {done.stdout[-5000:]}"


def end_of_range(extra: str, resolution: str) -> str:
    """The lowest or the highest version that exists of the one package that an extra of pyproject.toml names."""
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    requirement: str
    (requirement,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    plain = ("--no-deps", "--no-header", "--no-annotate", "--quiet")
    command = [str(Path(sys.executable).with_name("uv")), "pip", "compile", *plain, "--resolution", resolution, "-"]
    done = subprocess.run(command, input=requirement, capture_output=True, text=True, check=True)
    return str(done.stdout.strip().partition("==")[2])
