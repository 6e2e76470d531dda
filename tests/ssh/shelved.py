"""Machines that see the shelf with the tools, the channel and the index where this one has it: fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from managed import SHELF
from ssh.conftest import PASSWORD, Laptop
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sshlab import Host, User


@pytest.fixture(name="shared", scope="session")
def shared_fixture() -> Iterator[Lab]:
    SHELF.mkdir(exist_ok=True)
    try:
        with Lab(hosts=("gpu1",), shares={str(SHELF): SHELF}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture(name="box")
def box_fixture(shared: Lab) -> Iterator[Host]:
    yield shared["gpu1"]
    shared.reset()


@pytest.fixture(name="ada")
def ada_fixture(box: Host) -> User:
    return box.user("ada", password=PASSWORD)


@pytest.fixture(name="laptop")
def laptop_fixture(shared: Lab, ada: User, tmp_path: Path) -> Iterator[Laptop]:
    """Its key opens the box, and there is a script; nothing is attached yet."""
    place = tmp_path / "desk"
    place.mkdir()
    made = Laptop(place, shared.client(tmp_path / "home"))
    ada.authorize(made.client.key())
    made.script("print('done')\n")
    yield made
    made.close_connections()
