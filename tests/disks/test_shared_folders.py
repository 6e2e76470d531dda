"""A store that several nodes share, on a file system whose locks hold within one node only.

Each node is a mount namespace with its own bindfs mount of the same folder (flock does not pass from one such mount to
the other), its own boot id and, where a test says so, its own host name and, on a machine that has one, machine id.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import HOLDFAST, Desk, Result, alive, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSIDE = """
set -e
[ -z "$NODE_NAME" ] || hostname "$NODE_NAME"
mount --bind "$NODE/boot_id" /proc/sys/kernel/random/boot_id
[ ! -e "$NODE/machine-id" ] || [ ! -e /etc/machine-id ] || mount --bind "$NODE/machine-id" /etc/machine-id
bindfs --no-allow-other "$SHARED" "$MOUNTED"
exec sleep 600
"""
WAITING = "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"


class Node:
    """A node that sees the folder ``shared`` at ``mounted``, by a mount of its own."""

    def __init__(self, place: Path, name: str, shared: Path, mounted: Path, *, is_clone: bool) -> None:
        self.place, self.name, self.mounted = place / name, "" if is_clone else name, mounted
        self.place.mkdir()
        if not is_clone:
            (self.place / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        self._shared = shared
        self.boot()

    def boot(self) -> None:
        (self.place / "boot_id").write_text(f"{uuid.uuid4()}\n")
        told = {"NODE": self.place, "NODE_NAME": self.name, "SHARED": self._shared, "MOUNTED": self.mounted}
        env = {**os.environ, **{name: str(value) for name, value in told.items()}}
        argv = ["unshare", "--mount", "--uts", "sh", "-c", INSIDE]
        with (self.place / "log").open("wb") as log:
            self.keeper = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
        try:
            eventually(lambda: self.keeper.poll() is not None or self.is_mounted(), 20)
        finally:
            if not self.is_mounted():
                self.close()
                pytest.skip(f"NOT TESTED: no node with a mount of its own: {(self.place / 'log').read_text()}")

    def is_mounted(self) -> bool:
        try:
            mounts = Path(f"/proc/{self.keeper.pid}/mounts").read_text()
            return str(self.mounted) in mounts and b"sleep" in Path(f"/proc/{self.keeper.pid}/cmdline").read_bytes()
        except OSError:
            return False

    def holdfast(self, desk: Desk, *words: str) -> Result:
        enter = ["nsenter", "--target", str(self.keeper.pid), "--mount", "--uts", "--", "env", "-C", str(desk.project)]
        argv = [*enter, str(HOLDFAST), *words]
        done = subprocess.run(
            argv, env=desk.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    def close(self) -> None:
        self.keeper.kill()
        self.keeper.wait()


class Cluster:
    """A person at two nodes, ``first`` and ``second``, that share store and project."""

    def __init__(self, place: Path, desk: Desk, *, are_clones: bool) -> None:
        self.desk, self.shared, mounted = desk, place / "shared", place / "home"
        self.shared.mkdir()
        mounted.mkdir()
        desk.home, desk.project = mounted / "store", mounted / "project"
        desk.env["HOLDFAST_HOME"] = str(desk.home)
        (self.shared / "project").mkdir()
        self.first = Node(place, "login1", self.shared, mounted, is_clone=are_clones)
        self.second = Node(place, "login2", self.shared, mounted, is_clone=are_clones)

    def script(self, text: str) -> None:
        (self.shared / "project/train.py").write_text(text)

    def begin(self, *words: str) -> str:
        """Start a run on the first node that waits for the file ``gate``."""
        self.script(WAITING)
        result = self.first.holdfast(
            self.desk, "submit", "-c", "local", "--no-wait", *words, "train.py", str(self.shared / "gate")
        )
        assert result.code == 0, result
        eventually(lambda: "started" in [event["type"] for event in self.events()])
        return str(self.record(self.first)["run_id"])

    def record(self, node: Node) -> dict[str, Any]:
        found: list[dict[str, Any]] = node.holdfast(self.desk, "history", "list", "-o", "json").json
        return found[0]

    @property
    def attempt(self) -> Path:
        (found,) = self.shared.glob("store/runs/*/a1")
        return found

    def events(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in (self.attempt / "events.jsonl").read_text().splitlines()]
        except (OSError, ValueError):
            return []

    def watchers(self) -> list[int]:
        accepted = self.events()[0]
        return [accepted["guardian"], accepted["pid"]]


@pytest.fixture
def cluster(request: pytest.FixtureRequest, desk: Desk, tmp_path: Path) -> Iterator[Cluster]:
    if shutil.which("bindfs") is None or not os.path.exists("/dev/fuse"):
        pytest.skip("NOT TESTED: there is no bindfs, or no /dev/fuse")
    made = Cluster(tmp_path, desk, are_clones=getattr(request, "param", False))
    yield made
    for node in (made.first, made.second):
        node.close()


both_kinds = pytest.mark.parametrize("cluster", [False, True], ids=["named", "clones"], indirect=True)


@both_kinds
def test_other_node_does_not_close_a_run_that_lives(cluster: Cluster) -> None:
    """Clones have one machine id and host name; only the sign of life tells them from a machine that was rebooted."""
    cluster.begin()
    for words in (["runs"], ["history", "list"], ["info"], ["logs"]):
        result = cluster.second.holdfast(cluster.desk, *words)
        assert result.code == 0, result
    assert "shown as last seen" in cluster.second.holdfast(cluster.desk, "runs").err
    assert cluster.record(cluster.second)["status"] == "Running"
    assert all(map(alive, cluster.watchers()))
    (cluster.shared / "gate").touch()
    eventually(lambda: cluster.record(cluster.first)["status"] == "Completed")
    assert cluster.record(cluster.second)["status"] == "Completed"
    assert [event["type"] for event in cluster.events()].count("closed") == 1


@both_kinds
def test_cancel_from_another_node_ends_the_run(cluster: Cluster) -> None:
    cluster.begin()
    result = cluster.second.holdfast(cluster.desk, "cancel")
    assert result.code == 0, result
    assert "another node" in result.err
    eventually(lambda: "closed" in [event["type"] for event in cluster.events()])
    assert cluster.record(cluster.second)["status"] == "Canceled"


def test_node_that_was_rebooted_closes_its_own_run_and_no_other_does(cluster: Cluster) -> None:
    cluster.begin()
    for pid in cluster.watchers():
        os.kill(pid, signal.SIGSTOP)
    for pid in cluster.watchers():
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(alive, cluster.watchers())))
    long_ago = time.time() - 10**6
    os.utime(cluster.attempt / "alive", (long_ago, long_ago))  # the time that a reboot takes
    assert cluster.record(cluster.second)["status"] == "Running"
    cluster.first.close()
    cluster.first.boot()
    record = cluster.record(cluster.first)
    assert record["status"] == "Lost"
    assert "rebooted" in record["reason"]


def test_cancel_closes_the_run_of_a_node_that_is_gone(cluster: Cluster) -> None:
    cluster.begin()
    for pid in cluster.watchers():
        os.kill(pid, signal.SIGSTOP)
    for pid in cluster.watchers():
        os.kill(pid, signal.SIGKILL)
    long_ago = time.time() - 3600
    os.utime(cluster.attempt / "alive", (long_ago, long_ago))
    assert cluster.second.holdfast(cluster.desk, "cancel").code == 0
    record = cluster.record(cluster.second)
    assert (record["status"], record["exit_code"]) == ("Canceled", 143)
    assert "has been silent" in record["reason"]
    assert "login1" in record["reason"]


CLAIMS = """
import os, sys
from holdfast.model import Project
from holdfast.store import run_numbers
from holdfast.store.home import open_home
home, project = open_home(), Project("/x", "11111111-1111-1111-1111-111111111111", "x")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(100):
    claimed = run_numbers.claim(home, project)
    print(claimed.run_number, claimed.run_id)
"""


def test_two_nodes_that_submit_at_once_get_different_numbers_and_ids(cluster: Cluster) -> None:
    nodes = (cluster.first, cluster.second)
    assert all(node.holdfast(cluster.desk, "runs").code == 0 for node in nodes)
    processes = []
    for node in nodes:
        enter = ["nsenter", "--target", str(node.keeper.pid), "--mount", "--uts", "--"]
        argv = [*enter, sys.executable, "-c", CLAIMS]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(argv, env=cluster.desk.env, stdin=pipe, stdout=pipe, text=True))
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    claims = [line for process in processes for line in process.communicate(timeout=600)[0].splitlines()]
    assert len(claims) == 200
    assert len({line.split()[0] for line in claims}) == 200
    assert len({line.split()[1] for line in claims}) == 200
    assert len(list(cluster.shared.glob("store/numbers/*"))) < 200


def test_other_node_does_not_close_a_run_that_is_being_submitted(cluster: Cluster) -> None:
    """The submit of the first node is stopped between the run's folder and its start."""
    cluster.script(WAITING)
    submit = _stopped_before_start(cluster)
    try:
        assert cluster.record(cluster.second)["status"] == "Submitting"
        assert not list(cluster.shared.glob("store/runs/*/a1"))
        assert list(cluster.shared.glob("store/locks/submit-*"))
    finally:
        submit()
    eventually(lambda: "started" in [event["type"] for event in cluster.events()])
    (cluster.shared / "gate").touch()
    eventually(lambda: cluster.record(cluster.first)["status"] == "Completed")


def _stopped_before_start(cluster: Cluster) -> Callable[[], None]:
    """A submit that waits, with its run on disk, for its id to be read; the answer lets it go on."""
    desk, node = cluster.desk, cluster.first
    enter = ["nsenter", "--target", str(node.keeper.pid), "--mount", "--uts", "--", "env", "-C", str(desk.project)]
    argv = [*enter, str(HOLDFAST), "submit", "-c", "local", "--no-wait", "train.py", str(cluster.shared / "gate")]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:  # a full pipe: the writer of the id waits
        while os.write(writer, b"." * 65536):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    process = subprocess.Popen(argv, env=desk.env, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.DEVNULL)
    os.close(writer)
    eventually(lambda: bool(list(cluster.shared.glob("store/runs/*/run.json"))))

    def go_on() -> None:
        with os.fdopen(reader, "rb") as source:
            source.read()
        assert process.wait() == 0

    return go_on
