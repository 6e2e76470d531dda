"""A person with Jupyter on a laptop, and a machine that has ipykernel: both use one environment, made once."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab import shelf
from ssh.conftest import Laptop
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sshlab import Host

ROOT = Path(__file__).resolve().parents[2]
IPYKERNEL = os.environ.get("HOLDFAST_TEST_IPYKERNEL", "7.4.0")  # tests/soak/test_dependency_ranges.py tries others
PACKAGES = (f"ipykernel=={IPYKERNEL}", "jupyter_client==8.10.0", "cloudpickle==3.1.2", "numpy==2.4.6")
HOLDFAST_NEEDS = ("jmespath", "packaging", "ruamel.yaml", "nvidia-ml-py")
MACHINE_PYTHON = "/usr/bin/python3"  # which the machines of the lab have too
THERE = "/opt/notebook"
PATIENCE_S = 90.0


@pytest.fixture(scope="session")
def jupyter() -> Path:
    """The interpreter of an environment with Jupyter's client, ipykernel, and what Holdfast needs."""

    def make(folder: Path) -> None:
        uv = Path(sys.executable).with_name("uv")
        python = folder / "venv" / "bin" / "python"
        subprocess.run([uv, "venv", "-q", "--python", MACHINE_PYTHON, folder / "venv"], check=True, capture_output=True)
        install = ["pip", "install", "-q", "--python", str(python), *PACKAGES, *HOLDFAST_NEEDS]
        subprocess.run([str(uv), *install], check=True, capture_output=True)

    packages = " ".join((*PACKAGES, *HOLDFAST_NEEDS))
    try:
        return shelf.kept(ROOT / ".tools", "notebook", packages, make) / "venv" / "bin" / "python"
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT TESTED: {packages} could not be installed: {error.stderr.decode()[-300:]}")


@pytest.fixture(scope="session")
def kernel_lab(jupyter: Path) -> Iterator[Lab]:
    try:
        with Lab(hosts=("gpu1",), shares={THERE: jupyter.parents[2]}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def lab(kernel_lab: Lab) -> Iterator[Lab]:
    yield kernel_lab
    kernel_lab.reset()


@pytest.fixture
def gpu1(lab: Lab) -> Host:
    return lab["gpu1"]


class Notebook:
    """A kernel and a real client of Jupyter, which runs in a process of its own on the person's machine."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, verb: str, text: str = "") -> dict[str, Any]:
        """One command for ``jupyter_process.py``, and its answer."""
        self.begin(verb, text)
        return self.answer()

    def run(self, code: str) -> dict[str, Any]:
        """The status of the cell, its text on stdout and stderr, its value, its error, and the traceback shown."""
        return self.ask("run", code)

    def begin(self, verb: str, text: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, text]).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        is_there = select.select([self._process.stdout], [], [], PATIENCE_S)[0]
        line = self._process.stdout.readline() if is_there else b""
        assert line, self._log.read_text()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill_jupyter(self) -> None:
        """As a crash of Jupyter's server does it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def notebook(desk: Any, jupyter: Path, kernel: str, **more: str) -> Iterator[Notebook]:
    """``desk`` may be a laptop of the lab. The kernel is shut down at the end."""
    script = str(Path(__file__).with_name("jupyter_process.py"))
    env, path = jupyter_variables(desk, **more), desk.home.parent / "jupyter.log"
    with (
        path.open("ab") as log,
        desk.start(script, kernel, command=str(jupyter), env=env, stdin=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            yield Notebook(process, path)
            process.stdin.close()
            process.wait(PATIENCE_S)
        finally:
            process.kill()


def install_kernel(desk: Any, jupyter: Path, *words: str) -> str:
    """By the Holdfast of Jupyter's environment, so that an error is shown in the notebook. Returns its name."""
    words = ("-m", "holdfast", "kernel", "install", *words)
    result = desk.holdfast(*words, command=str(jupyter), env=jupyter_variables(desk))
    assert result.code == 0, result
    name: str = result.text.strip()
    return name


def jupyter_variables(desk: Any, **more: str) -> dict[str, str]:
    data = desk.home.parent / "jupyter"
    return {"PYTHONPATH": str(ROOT / "src"), "JUPYTER_DATA_DIR": str(data), "JUPYTER_RUNTIME_DIR": str(data), **more}


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Iterator[Laptop]:
    place = tmp_path / "desk"
    place.mkdir()
    made = Laptop(place, lab.client(tmp_path / "home"))
    yield made
    made.close_connections()


@pytest.fixture
def attached(laptop: Laptop, gpu1: Host) -> Laptop:
    """A laptop whose owner has a key on the machine, which is attached as lab1."""
    ada = gpu1.user("ada")
    ada.authorize(laptop.client.key())
    result = laptop.attach(ada, gpu1)
    assert result.code == 0, result
    return laptop
