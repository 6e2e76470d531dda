"""A Spark Connect server on the loopback, started as a class of the package pyspark."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spark import quick_java
from spark.standalone import LIMIT_S, _free_port

if TYPE_CHECKING:
    from pathlib import Path


class ConnectServer:
    """``sc://127.0.0.1:port``, with two threads for tasks; ``running_jobs`` is what its page says."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.port, self.page = _free_port(), _free_port()
        self.url = f"sc://127.0.0.1:{self.port}"
        home = next(python.parent.parent.glob("lib/python3*/site-packages/pyspark"))
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.port": str(self.page),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        argv = [
            str(home / "bin" / "spark-submit"),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
        ]
        argv += ["--master", "local[2]", "--driver-memory", "700m"]
        argv += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        env = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}
        env.update(
            JAVA_HOME=str(quick_java.home()),
            SPARK_HOME=str(home),
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_LOCAL_DIRS=str(folder),
        )
        env["PYSPARK_PYTHON"] = str(python)
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(argv, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._await()

    def running_jobs(self) -> int:
        (application,) = self._page("/api/v1/applications")
        return len(self._page(f"/api/v1/applications/{application['id']}/jobs?status=running"))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _page(self, path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.page, timeout=120)  # of a busy machine
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def _await(self) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            time.sleep(0.2)
        self.kill()
        raise TimeoutError(f"the Spark Connect server did not start: {self._log.read_text()[-2000:]}")
