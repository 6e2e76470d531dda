"""What a project declares is built on the machine where it runs, from a lock that was solved here for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from managed import SHELF, channel, index, lend_tools
from ssh.conftest import PASSWORD, Laptop
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sshlab import Host, User


@pytest.fixture(scope="module")
def shared() -> Iterator[Lab]:
    """Machines that see the shelf with the tools, the channel and the index where this one has it."""
    try:
        with Lab(hosts=("gpu1",), shares={str(SHELF): SHELF}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def box(shared: Lab) -> Iterator[Host]:
    yield shared["gpu1"]
    shared.reset()


@pytest.fixture
def ada(box: Host) -> User:
    return box.user("ada", password=PASSWORD)


@pytest.fixture
def managed(shared: Lab, box: Host, ada: User, tmp_path: Path) -> Iterator[Laptop]:
    place = tmp_path / "desk"
    place.mkdir()
    laptop = Laptop(place, shared.client(tmp_path / "home"))
    lend_tools(laptop)
    ada.authorize(laptop.client.key())
    result = laptop.attach(ada, box)
    assert result.code == 0, result
    ada.run("ln", "-s", str((laptop.home / "builder").resolve()), "/home/ada/.holdfast/builder")
    path = laptop.project / "aml_config" / "lab1.compute"
    path.write_text(path.read_text().replace("userManagedEnvironment: true", "userManagedEnvironment: false"))
    yield laptop
    laptop.close_connections()


def test_requirements_are_built_there_once(managed: Laptop, ada: User) -> None:
    files = index().path / "files"
    (managed.project / "requirements.txt").write_text(f"--no-index\n--find-links {files.as_uri()}\ntinypip==1.1\n")
    managed.script("import sys, tinypip; print(tinypip.WHOLE, sys.prefix)")
    result = managed.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, (result, managed.holdfast("history", "info", "-a", "control_log").out)
    assert b"1.1 /home/ada/.holdfast/envs/" in result.out
    assert len(list(ada.path(".holdfast/envs").glob("*"))) == 1
    assert managed.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert len(list(ada.path(".holdfast/envs").glob("*"))) == 1
    assert not (managed.home / "envs").exists()


def test_a_conda_file_is_built_there(managed: Laptop, ada: User) -> None:
    text = f"channels: [{channel().file_url}]\ndependencies: [python, tinysay]\n"
    (managed.project / "aml_config" / "conda_dependencies.yml").write_text(text)
    managed.script("import sys; print(sys.prefix)")
    prepared = managed.holdfast("experiment", "prepare", "-c", "lab1")
    assert prepared.code == 0, prepared
    assert b"/home/ada/.holdfast/envs/" in managed.holdfast("submit", "-c", "lab1", "train.py").out
