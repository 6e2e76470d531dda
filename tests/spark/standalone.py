"""A standalone Spark master with workers on the loopback, started as classes of the package pyspark."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark import quick_java

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 300


class Standalone:
    """``spark://127.0.0.1:port`` with its workers; ``state`` is what the master says on its page."""

    before: Sequence[str] = ()  # each command: another mount namespace, for instance

    def __init__(self, python: Path, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.home = next(python.parent.parent.glob("lib/python3*/site-packages/pyspark"))
        self.port, self.page = _free_port(), _free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.processes = [self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), page=self.page)]
        for _ in range(workers):
            self.processes.append(self.start_worker())
        self._await(workers)

    def state(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.page, timeout=30)
        try:
            connection.request("GET", "/json/")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "1g", self.url, page=_free_port())

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()

    def environment(self) -> dict[str, str]:
        """Of master and workers."""
        return {
            **{key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")},
            "JAVA_HOME": str(quick_java.home()),
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_WORKER_DIR": str(self.folder / "work"),
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
        }

    def _start(self, name: str, *words: str, page: int) -> subprocess.Popen[bytes]:
        argv = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", str(page)]
        with (self.folder / f"{name}-{page}.log").open("wb") as log:
            env = self.environment()
            argv = [*self.before, *argv, *words]
            return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _await(self, workers: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            with suppress(OSError, ValueError, http.client.HTTPException):
                if self.state()["aliveworkers"] == workers:
                    return
            time.sleep(0.2)
        self.stop()
        sys.stderr.write("".join(path.read_text()[-2000:] for path in self.folder.glob("*.log")))
        raise TimeoutError(f"the Spark master did not start within {LIMIT_S} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
