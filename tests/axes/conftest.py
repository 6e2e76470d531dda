"""A spool with its commands on the path, and the process that runs its jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from axes import spooler

if TYPE_CHECKING:
    from collections.abc import Iterator


class Spool:
    def __init__(self, place: Path) -> None:
        self.folder, self.commands = place / "spool", place / "commands"
        self.folder.mkdir()
        self.commands.mkdir()
        spooler.write_commands(self.commands, self.folder)
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, *enter: str) -> None:
        """``enter``: words in front of the command, which may lead into another namespace."""
        argv = [*enter, sys.executable, str(Path(spooler.__file__)), str(self.folder)]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)

    def hold(self) -> None:
        (self.folder / "hold").touch()

    def release(self) -> None:
        (self.folder / "hold").unlink()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spool]:
    made = Spool(tmp_path)
    monkeypatch.setenv("PATH", f"{made.commands}:{os.environ['PATH']}")
    made.begin()
    yield made
    made.end()
