"""A small disk for one test: a tmpfs in a mount namespace of its own, so that it is gone with the test's processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, Result, eventually

if TYPE_CHECKING:
    from conftest import Desk


class Volume:
    """Commands started through it see a disk of this size at ``place``; other processes see an empty folder."""

    def __init__(self, desk: Desk, place: Path, size: str) -> None:
        self._desk = desk
        self.place = place
        place.mkdir(exist_ok=True)
        mount = 'mount -t tmpfs -o size="$1",mode=700 tmpfs "$2" && echo ready && exec cat'
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = ["unshare", "-m", "sh", "-c", mount, "sh", size, str(place)]
        self._holder: subprocess.Popen[bytes] = subprocess.Popen(words, **pipes)  # type: ignore[call-overload]
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            _, complaint = self._holder.communicate()
            pytest.skip(f"NOT TESTED: no small disk could be mounted: {complaint.decode()}")

    @property
    def path(self) -> Path:
        """Its content, as seen from outside."""
        return Path(f"/proc/{self._holder.pid}/root{self.place}")

    @property
    def enter(self) -> list[str]:
        """Words before a command that is to see it."""
        return ["nsenter", "-t", str(self._holder.pid), "-m"]

    def holdfast(self, *words: str, env: dict[str, str] | None = None) -> Result:
        return self.run(str(HOLDFAST), *words, env=env)

    def run(self, *words: str, env: dict[str, str] | None = None) -> Result:
        inside = [*self.enter, "env", "-C", str(self._desk.project), *words]
        env = {**self._desk.env, **(env or {})}
        done = subprocess.run(inside, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        return Result(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    def make_read_only(self) -> None:
        """For files that are opened from now on: files that are already open for writing stay writable."""
        assert self.run("mount", "--bind", str(self.place), str(self.place)).code == 0
        eventually(lambda: self.run("mount", "-o", "remount,ro,bind", str(self.place)).code == 0)

    def fill(self, leave: int) -> None:
        """Fill the disk except for this many bytes."""
        self.free()
        with open(self.path / "filler", "wb") as filler:
            while (room := self.room() - leave) > 0:
                filler.write(bytes(min(room, 1 << 20)))
                filler.flush()

    def free(self) -> None:
        (self.path / "filler").unlink(missing_ok=True)

    def room(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def leave(self) -> None:
        self._holder.communicate()
