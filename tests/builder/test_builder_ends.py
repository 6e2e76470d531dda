"""Stopped, killed, out of space: what is left behind, and who still says a last word."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builder.asking import Builder, conda_spec, pip_spec
from builder.wheels import write_wheel
from lab.server import Fault, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.channel import Channel
    from lab.index import Index
    from lab.server import Server

HERE: dict[str, Any] = {"python": sys.executable}
WHEEL = "/files/tinypip-1.1-py3-none-any.whl"


@pytest.fixture
def pip_lock(tmp_path: Path, served: Server) -> dict[str, Any]:
    return Builder(tmp_path, tmp_path / "elsewhere").lock(pip_spec("tinypip", index=f"{served.url}/simple/"), **HERE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_all_and_says_so(
    tmp_path: Path, served: Server, pip_lock: dict[str, Any], number: signal.Signals
) -> None:
    builder = Builder(tmp_path)
    with _downloading(builder, served, pip_lock) as process:
        family = _descendants(process.pid)
        process.send_signal(number)
        last = _last_line(process)
    assert (process.returncode, last["event"], last["kind"]) == (1, "failed", "interrupted")
    assert not (tmp_path / "env.building").exists()
    _wait(lambda: not any(map(_lives, family)))


def test_a_kill_leaves_only_what_the_next_one_removes(tmp_path: Path, served: Server, pip_lock: dict[str, Any]) -> None:
    builder = Builder(tmp_path)
    with _downloading(builder, served, pip_lock) as process:
        family = _descendants(process.pid)
        process.kill()
    _wait(lambda: not any(map(_lives, family)))
    assert not (tmp_path / "env").exists()
    (tmp_path / "env.building" / "left").touch()
    served.faults.clear()
    prefix = builder.environment(pip_lock)
    assert not (prefix / "left").exists()


def test_a_conda_build_is_stopped_as_well(tmp_path: Path, channel: Channel) -> None:
    builder = Builder(tmp_path)
    with serve(channel.path) as server:
        lock = builder.lock(conda_spec(server.url, "tinynum"))
        server.faults["/noarch/tinynum-2.0-py_0.conda"] = Fault(delay=60)
        server.paths.clear()
        with builder.start("install", lock=lock, **builder.where("env")) as process:
            _wait(lambda: "/noarch/tinynum-2.0-py_0.conda" in server.paths)
            process.terminate()
            last = _last_line(process)
    assert last["kind"] == "interrupted"
    assert not (tmp_path / "env.building").exists()


@pytest.mark.parametrize(("which", "what"), [(0, "the builder ended"), (-1, "uv, which installs packages, was killed")])
def test_a_process_that_is_killed_is_reported(
    tmp_path: Path, served: Server, pip_lock: dict[str, Any], which: int, what: str
) -> None:
    builder = Builder(tmp_path)
    with _downloading(builder, served, pip_lock) as process:
        family = _descendants(process.pid)
        os.kill(family[which], signal.SIGKILL)
        last = _last_line(process)
    assert (process.returncode, last["kind"]) == (1, "internal")
    assert last["what"].startswith(what)
    assert "out of memory" in last["hint"]
    _wait(lambda: not any(map(_lives, family)))
    assert not (tmp_path / "env.building").exists()


@pytest.mark.parametrize("kind", ["conda", "pip"])
def test_an_archive_that_is_gone(tmp_path: Path, channel: Channel, served: Server, kind: str) -> None:
    builder = Builder(tmp_path)
    with serve(channel.path) as shop:
        if kind == "conda":
            lock = builder.lock(conda_spec(shop.url, "tinynum"))
            shop.faults["/noarch/tinynum-2.0-py_0.conda"] = Fault(status=404)
        else:
            lock = builder.lock(pip_spec("tinypip", index=f"{served.url}/simple/"), **HERE)
            served.faults[WHEEL] = Fault(status=404)
        answer = builder.install(lock)
    assert answer.last["kind"] == "unreachable"
    assert "404" in answer.last["what"]
    assert not (tmp_path / "env.building").exists()


def test_too_little_space_is_said_before(tmp_path: Path, channel: Channel) -> None:
    builder = Builder(tmp_path)
    lock = builder.lock(conda_spec(channel.file_url, "tinynum"))
    lock["conda"][0]["size"] = 10**15
    answer = builder.install(lock)
    assert answer.last["kind"] == "disk"
    assert "about 5,000,000,000 MB are needed" in answer.last["what"]
    assert "MB are free" in answer.last["what"]
    assert not builder.cache.joinpath("conda").exists()


def test_the_size_of_wheels_is_in_the_lock(pip_lock: dict[str, Any], index: Index) -> None:
    assert pip_lock["pip_bytes"] == (index.path / WHEEL.lstrip("/")).stat().st_size


def test_too_little_space_for_wheels_is_said_before(tmp_path: Path, served: Server, pip_lock: dict[str, Any]) -> None:
    served.paths.clear()
    answer = Builder(tmp_path).install({**pip_lock, "pip_bytes": 10**15})
    assert answer.last["kind"] == "disk"
    assert answer.last["what"].startswith("about 3,000,000,000 MB are needed, ")
    assert answer.last["what"].endswith(" MB are free")
    assert served.paths == []


def test_what_is_in_the_cache_needs_no_space(builder: Builder, channel: Channel, served: Server) -> None:
    options = {"index_url": f"{served.url}/simple/"}
    lock = builder.lock(conda_spec(channel.file_url, "tinynum", pip=("tinypip",), pip_options=options))
    assert lock["pip_bytes"]
    builder.environment(lock, "first")
    large = {**lock, "pip_bytes": 10**15, "conda": [{**package, "size": 10**15} for package in lock["conda"]]}
    assert (builder.environment(large, "second") / "bin/python").exists()
    unknown = {**large, "pip": [*lock["pip"], f"tinytale==1.0 --hash=sha256:{'0' * 64}"]}
    answer = builder.install(unknown, "third")
    assert (answer.last["kind"], "3,000,000,000 MB are needed" in answer.last["what"]) == ("disk", True)


@pytest.mark.parametrize("kind", ["conda", "pip"])
def test_a_disk_that_fills_up(tmp_path: Path, channel: Channel, kind: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    within = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=20m none "$0" && exec "$@"', str(small))
    if (
        shutil.which("unshare") is None
        or subprocess.run([*within, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no small disk can be mounted here")
    if kind == "conda":
        lock = Builder(tmp_path).lock(conda_spec(channel.file_url, "tinynum"))
        for package in lock["conda"]:
            package["size"] = 1  # an index that says too little: the check before cannot help
    else:
        write_wheel(tmp_path / "wheels", "large", "1", {"large.dat": "a" * 30_000_000})
        links = {"find_links": [str(tmp_path / "wheels")], "no_index": True}
        lock = Builder(tmp_path).lock({**pip_spec("large"), "pip_options": links}, **HERE)
        assert lock["pip_bytes"] == 0  # a folder tells no sizes either
    builder = Builder(small)
    builder.log = tmp_path / "log"
    answer = builder.install(lock, within=within)
    assert answer.last["kind"] == "disk", answer.last
    assert "MB are free" in answer.last["what"]
    assert answer.last["where"].startswith(str(small))


def _downloading(builder: Builder, served: Server, lock: dict[str, Any]) -> subprocess.Popen[str]:
    """A builder whose uv waits for a wheel that does not come."""
    served.faults[WHEEL] = Fault(delay=60)
    served.paths.clear()
    process = builder.start("install", lock=lock, **HERE, **builder.where("env"))
    _wait(lambda: WHEEL in served.paths)
    return process


def _last_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    last: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    return last


def _descendants(pid: int) -> list[int]:
    """The worker first, uv among the others."""
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [*children, *(inner for child in children for inner in _descendants(child))]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
