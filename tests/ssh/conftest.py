"""A person at a laptop, and machines that they reach over a network of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from conftest import HOLDFAST, Desk
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Result
    from sshlab import Client, Host, User

PASSWORD = "corr3ct-horse-canary"


class Laptop(Desk):
    """A desk whose commands run on a machine of the lab."""

    def __init__(self, place: Path, client: Client) -> None:
        super().__init__(place)
        self.client = client
        self.env = {**client.env, "HOLDFAST_HOME": str(self.home), "USER": "ada", "LANG": "C.UTF-8", "PAGER": "cat"}
        self.env["PATH"] = f"{HOLDFAST.parent}:{os.environ['PATH']}"

    def start(self, *words: str, cwd: Path | None = None, **more: Any) -> subprocess.Popen[bytes]:
        env = {**self.env, **more.pop("env", {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        prefix = self.client.prefix(cwd or self.project)
        return subprocess.Popen([*prefix, pipes.pop("command", self.command), *words], env=env, **pipes)

    def close_connections(self) -> None:
        """End the shared connections that commands left open for the next one."""
        for entry in os.scandir("/proc"):
            try:
                with open(f"{entry.path}/cmdline", "rb") as source:
                    words = source.read()
                same = os.stat(f"{entry.path}/ns/net").st_ino == self._network
            except OSError:
                continue
            if same and words.startswith(b"ssh: ") and b"[mux]" in words:
                os.kill(int(entry.name), signal.SIGKILL)

    @property
    def _network(self) -> int:
        found = self.client.run("stat", "-L", "-c", "%i", "/proc/self/ns/net").stdout
        return int(found)

    def attach(self, user: User, host: Host, *words: str, name: str = "lab1", **more: Any) -> Result:
        accept = ("--accept-host-key", host.fingerprint("ed25519"))
        where = ("--name", name, "--address", host.hostname, "--username", user.name)
        return self.holdfast("computetarget", "attach", "remote", *where, *accept, *words, **more)


@pytest.fixture(scope="session")
def ssh_lab() -> Iterator[Lab]:
    try:
        with Lab() as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def lab(ssh_lab: Lab) -> Iterator[Lab]:
    yield ssh_lab
    ssh_lab.reset()


@pytest.fixture
def gpu1(lab: Lab) -> Host:
    return lab["gpu1"]


@pytest.fixture
def ada(gpu1: Host) -> User:
    return gpu1.user("ada", password=PASSWORD)


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Iterator[Laptop]:
    place = tmp_path / "desk"
    place.mkdir()
    made = Laptop(place, lab.client(tmp_path / "home"))
    yield made
    made.close_connections()


@pytest.fixture
def attached(laptop: Laptop, gpu1: Host, ada: User) -> Laptop:
    """A laptop with a key of its owner on the machine, which is attached as lab1."""
    ada.authorize(laptop.client.key())
    result = laptop.attach(ada, gpu1)
    assert result.code == 0, result
    return laptop


@pytest.fixture
def second(attached: Laptop, lab: Lab, gpu1: Host, ada: User, tmp_path: Path) -> Iterator[Laptop]:
    """Another machine with another store, attached to the same account after the first one."""
    place = tmp_path / "second"
    place.mkdir()
    made = Laptop(place, lab.client(tmp_path / "second-home", "second"))
    ada.authorize(made.client.key())
    result = made.attach(ada, gpu1)
    assert result.code == 0, result
    yield made
    made.close_connections()
