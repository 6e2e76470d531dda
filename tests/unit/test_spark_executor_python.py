"""The program that starts Python on a Spark worker: own path, kept copy, or a copy from the driver."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import libraries
from holdfast.script_api.spark import executor_python, record

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are Linux machines")
DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
from _holdfast_spark import executor_python
print(executor_python.provide(sys.argv[2], "127.0.0.1", ""), flush=True)
sys.stdin.read()
print(executor_python.sent_bytes())
"""
LOOK = ("-c", "import sys, tiny; print(sys.prefix, sys.version_info[:2], tiny.answer)")


class Driver:
    """A process of a virtual environment that answers workers; ``end`` gives the bytes that it has sent."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = folder
        self.environment = folder / "env"
        python = self.environment / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.environment)], check=True)
            packages = next(self.environment.glob("lib/python3*/site-packages"))
            (packages / "tiny.py").write_text("answer = 'from the environment'\n")
        (folder / "scratch").mkdir(exist_ok=True)
        argv = [str(python), "-c", DRIVER, str(site), str(folder / "scratch")]
        self._process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.program = Path(self._process.stdout.readline().strip())

    def end(self) -> int:
        out, _ = self._process.communicate()
        return int(out)

    def worker(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """The program on a machine that does not have the path of the environment."""
        place = self.folder / "worker"
        place.mkdir(exist_ok=True)
        self.change(r"^own=\S+", "own=/nowhere/bin/python")
        env = {"PATH": os.environ["PATH"], **(variables or {"HOME": str(place)})}
        return subprocess.run([self.program, *LOOK], cwd=place, env=env, capture_output=True, text=True, check=False)

    def change(self, expression: str, text: str) -> None:
        self.program.write_text(re.sub(expression, text, self.program.read_text(), flags=re.MULTILINE))

    @property
    def kept(self) -> Path:
        return self.folder / "worker" / ".cache" / "holdfast" / "spark-environments"


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, libraries.make_site(tmp_path / "site"))
    yield made
    made._process.kill()
    made._process.communicate()


def test_environment_is_sent_once_per_content(driver: Driver) -> None:
    first = driver.worker()
    assert first.returncode == 0, first
    [folder] = driver.kept.iterdir()
    assert first.stdout == f"{folder} {sys.version_info[:2]} from the environment\n"
    assert (folder / "base" / "bin" / "python3").is_file()
    again = driver.worker()
    assert again.stdout == first.stdout
    assert driver.end() == (driver.folder / "scratch" / "environment.tar.gz").stat().st_size
    second = Driver(driver.folder, driver.folder / "site")
    assert second.worker().stdout == first.stdout
    assert second.end() == 0
    (next(driver.environment.glob("lib/python3*/site-packages")) / "tiny.py").write_text("answer = 'changed'\n")
    third = Driver(driver.folder, driver.folder / "site")
    assert third.worker().stdout.endswith(" changed\n")
    assert third.end() > 0
    assert len(list(driver.kept.iterdir())) == 2


def test_worker_that_has_the_same_path_is_sent_nothing(driver: Driver) -> None:
    done = subprocess.run([driver.program, *LOOK], capture_output=True, text=True, check=False)
    assert done.stdout == f"{driver.environment} {sys.version_info[:2]} from the environment\n"
    own = subprocess.run(["./.holdfast-python", *LOOK], cwd=driver.folder, capture_output=True, text=True, check=False)
    assert own.stdout == done.stdout  # as the driver starts Python workers itself
    assert driver.end() == 0
    assert not (driver.folder / ".holdfast-python").exists()


def test_path_with_another_python_is_not_used(driver: Driver) -> None:
    driver.change(r"^own=\S+", "own=/bin/true")
    place = driver.folder / "worker"
    place.mkdir()
    done = subprocess.run(
        [driver.program, *LOOK], env={**os.environ, "HOME": str(place)}, capture_output=True, check=True
    )
    assert done.stdout.startswith(os.fsencode(driver.kept))


def test_archive_that_is_not_the_drivers_is_refused(driver: Driver) -> None:
    driver.change(r"secret=\w+", "secret=another")
    done = driver.worker()
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        r"holdfast: worker \S+: the Python of the run did not arrive whole from 127.0.0.1:\d+\n", done.stderr
    )
    assert list(driver.kept.iterdir()) == []


def test_request_with_another_word_gets_nothing(driver: Driver) -> None:
    found = re.search(r"port=(\d+)", driver.program.read_text())
    assert found is not None
    with socket.create_connection(("127.0.0.1", int(found[1]))) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert connection.recv(100) == b""
    assert driver.end() == 0


def test_driver_that_is_gone_is_said_by_the_worker_and_in_the_reason(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.end()
    done = driver.worker()
    assert done.returncode == 1
    assert re.search(r"the Python of the run cannot be fetched from 127.0.0.1:\d+\n$", done.stderr)
    log = f"WARN Something\n{done.stderr}ERROR Executor: EOFException\n"
    record.add_log(log)
    assert "reason" not in record._known  # the script has not failed
    monkeypatch.setitem(record._known, "reason", "Spark stage aborted: EOFException")
    record.add_log(log)
    expected = rf"Spark could not start Python on its worker {os.uname().nodename}: the Python of the run cannot be"
    assert str(record._known["reason"]).startswith(expected)


def test_port_is_after_that_of_the_driver_where_it_is_fixed() -> None:
    """A fixed port of the driver has a firewall as its reason: the next free port after it is used."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        number = first.getsockname()[1]
        server, port = executor_python._listen("127.0.0.1", str(number))
        second, next_port = executor_python._listen("127.0.0.1", str(number))
        assert number < port < next_port <= number + 16
        server.close()
        second.close()


def test_worker_without_a_home_uses_the_folder_of_its_executor(driver: Driver) -> None:
    done = driver.worker(LANG="C.UTF-8")
    assert done.stdout.startswith(f"{driver.folder}/worker/"), done
    assert not driver.kept.exists()
