"""Machines that a run cannot start on, and a reader of what is printed about it, who does exactly what it says."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from managed import lend_tools
from ssh.conftest import Laptop
from ssh.shelved import ada_fixture, box_fixture, laptop_fixture, shared_fixture  # noqa: F401

if TYPE_CHECKING:
    from conftest import Desk, Result
    from sshlab import Host, User

LIMIT_S = 5.0
TRIES = 4  # on a busy machine a few seconds pass by themselves
SMALL = "/scratch"


class Reader:
    """A user who submits, is refused, and does exactly what the message suggests."""

    def __init__(self, desk: Desk, host: Host | None = None) -> None:
        self.desk = desk
        self.host = host
        if host is not None:
            host.program("/usr/local/bin/sudo", '#!/bin/sh\nexec "$@"\n')

    def refused(self, *words: str, code: int, store: Path | None = None) -> str:
        """The fix; nothing has arrived, no run is in the history, and it took less than five seconds."""
        times = []
        for _ in range(TRIES):
            began = time.monotonic()
            result = self.desk.holdfast("submit", *words, "train.py")
            times.append(time.monotonic() - began)
            assert result.code == code, result
            if times[-1] < LIMIT_S:
                break
        assert min(times) < LIMIT_S
        assert not self.desk.home.joinpath("runs").exists() or not list(self.desk.home.joinpath("runs").iterdir())
        if store is not None:
            assert not list(store.glob("objects/??/*"))
        return fix_of(result)

    def follow(self, fix: str) -> None:
        """Run what is to be run where it is to be run, write what is to be written."""
        fix = fix.rpartition("; or ")[2]  # an empty machine has nothing to clean
        if found := re.fullmatch(r"write in (\S+?)(?::(\d+))?: (.+)", fix):
            self._write(Path(found[1]), int(found[2] or 0), found[3])
        elif found := re.fullmatch(r"on (\S+) run: (.+)", fix):
            assert self.host is not None
            assert found[1] == self.host.hostname
            self.host.run("sh", "-ec", found[2])
        elif found := re.search(r"(?:run|written): (.+)", fix):
            self._run(found[1])
        else:
            raise AssertionError(f"nobody could do that: {fix!r}")

    def passes(self, *words: str) -> Result:
        result = self.desk.holdfast("submit", *words, "train.py")
        assert result.code == 0, result
        return result

    def _write(self, file: Path, line: int, text: str) -> None:
        lines = file.read_text().splitlines()
        if line:
            assert lines[line - 1].partition(":")[0] == text.partition(":")[0]
            lines[line - 1] = text
        else:
            lines.append(text)
        file.write_text("\n".join([*lines, ""]))
        if file.suffix == ".compute":
            self.desk.trust(file.stem)

    def _run(self, command: str) -> None:
        prefix = self.desk.client.prefix(self.desk.project) if isinstance(self.desk, Laptop) else []
        words = [*prefix, "sh", "-ec", command]
        done = subprocess.run(
            words, env=self.desk.env, cwd=self.desk.project, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        assert done.returncode == 0, done


def fix_of(result: Result) -> str:
    """The first line behind ``try:``, which is all that a tired person reads."""
    return next(line.partition("try: ")[2] for line in result.err.splitlines() if "try: " in line)


@pytest.fixture
def reader(laptop: Laptop, box: Host) -> Reader:
    return Reader(laptop, box)


def describe(desk: Desk, user: User, *lines: str) -> Path:
    """The target lab1 as a person would write it; ``lines`` come on top."""
    config = desk.project / "aml_config"
    config.mkdir(exist_ok=True)
    where = [f"address: {user.host.hostname}", f"username: {user.name}", f"hostKey: {user.host.public_key()}"]
    said = {line.partition(":")[0]: line for line in ("type: remote", *where, *lines)}
    path = config / "lab1.compute"
    path.write_text("\n".join([*(line for line in said.values() if not line.endswith(": -")), ""]))
    desk.trust("lab1")
    return path


def mount_disk(user: User, options: str) -> Path:
    """A disk of its own at /scratch there, as we see it."""
    user.host.run("mkdir", "-p", SMALL)
    user.host.run("mount", "-t", "tmpfs", "-o", f"uid={user.uid},gid={user.uid},mode=700,{options}", "tmpfs", SMALL)
    return user.host.path(f"{SMALL}/store")


def lend_builder(laptop: Laptop, user: User) -> None:
    lend_tools(laptop)
    user.run("mkdir", "-p", f"{user.home}/.holdfast")
    user.run("ln", "-s", str((laptop.home / "builder").resolve()), f"{user.home}/.holdfast/builder")
