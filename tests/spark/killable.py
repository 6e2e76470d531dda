"""A standalone cluster whose parts are killed and started again, and what is left of an application on it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from conftest import alive, eventually
from spark.standalone import Standalone

if TYPE_CHECKING:
    from collections.abc import Sequence

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Killable(Standalone):
    """Executors write their data below ``local``. ``before`` is put before every command."""

    def __init__(self, python: Path, folder: Path, local: Path, before: Sequence[str] = (), workers: int = 2) -> None:
        self.workers, self.local, self.before = workers, local, before
        super().__init__(python, folder, workers)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "SPARK_LOCAL_DIRS": str(self.local)}

    @property
    def master(self) -> subprocess.Popen[bytes]:
        return self.processes[0]

    def kill_master(self) -> None:
        _kill(self.master)

    def start_master(self) -> None:
        """At the same address, without a memory of what was there before."""
        words = ("--host", "127.0.0.1", "--port", str(self.port))
        self.processes[0] = self._start("master.Master", *words, page=self.page)

    def kill_worker(self, number: int) -> None:
        _kill(self.processes[1 + number])

    def make_whole(self) -> None:
        """Start what is not running; workers find a new master by themselves, but only after many seconds."""
        if self.master.poll() is not None:
            self.start_master()
            for number in range(self.workers):
                self.kill_worker(number)
        for number in range(self.workers):
            if self.processes[1 + number].poll() is not None:
                self.processes[1 + number] = self.start_worker()
        self._await(self.workers)

    def applications(self) -> list[str]:
        """Ids of all that the present master has ever known."""
        state = self.state()
        return [row["id"] for row in state["activeapps"] + state["completedapps"]]

    def executors(self, application: str) -> list[int]:
        return [pid for pid, argv in commands().items() if EXECUTOR in argv and application in argv]

    def left(self, application: str) -> list[str]:
        """What there still is of an application: its registration, and processes on workers."""
        active = [f"{row['id']} is registered" for row in self.state()["activeapps"]]
        processes = [f"{pid} {' '.join(argv)[:200]}" for pid, argv in commands().items() if application in argv]
        pythons = [
            f"{pid} {' '.join(argv)[:200]}" for pid, argv in commands().items() if is_python_worker(pid, application)
        ]
        return active + processes + pythons

    def local_folders(self) -> set[str]:
        """Those for the data of executors. A worker removes them when an application has ended, unless it is killed."""
        worker = self.processes[1].pid
        return {path.name for path in Path(f"/proc/{worker}/root{self.local}").glob("spark-*/executor-*")}

    def await_nothing_left(self, application: str) -> None:
        eventually(lambda: self.left(application) == [], 60)


def commands() -> dict[int, list[str]]:
    """Command lines of all processes that run, by pid."""
    result = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if alive(int(entry.name)):
            result[int(entry.name)] = _read(entry / "cmdline").decode(errors="replace").split("\0")
    return result


def is_python_worker(pid: int, application: str) -> bool:
    """``pyspark.daemon`` and its children work in the folder that the worker made for the application."""
    try:
        return f"/{application}/" in os.readlink(f"/proc/{pid}/cwd") + "/"
    except OSError:
        return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
