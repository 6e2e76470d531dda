"""A run in a container has the rights of its user and no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from containers.conftest import WAITING, WAYS, give_tools
from managed import index

if TYPE_CHECKING:
    from containers.conftest import Seat

everywhere = pytest.mark.parametrize("ground", WAYS, indirect=True)
over_ssh = pytest.mark.parametrize("ground", ["remote-docker", "remote-podman"], indirect=True)
with_docker_over_ssh = pytest.mark.parametrize("ground", ["remote-docker"], indirect=True)

WRITES = """
import os
print(os.getuid(), os.getgid())
os.makedirs('outputs/deep')
open('outputs/deep/model', 'w').write('x')
"""


@over_ssh
def test_a_script_is_the_caller_and_what_it_makes_is_theirs(seat: Seat) -> None:
    """S40"""
    assert seat.user is not None
    result = seat.submit(WRITES)
    assert f"{seat.uid} {seat.uid}\n" in result.text, result
    assert {path.lstat().st_uid for path in seat.attempt.rglob("*")} == {seat.uid}
    uid = seat.desk.record()["uid"]
    seat.user.run("rm", "-r", f".holdfast/runs/{uid}/a1/outputs")


@over_ssh
def test_root_has_to_be_asked_for_and_gives_everything_back(seat: Seat) -> None:
    """S40"""
    assert seat.user is not None
    seat.target("containerUser: root")
    result = seat.submit(WRITES + "open('left', 'w')\nraise SystemExit(3)")
    assert "0 0\n" in result.text, result
    assert {path.lstat().st_uid for path in seat.attempt.rglob("*")} == {seat.uid}
    uid = seat.desk.record()["uid"]
    seat.user.run("rm", "-r", f".holdfast/runs/{uid}/a1/workspace/above/work", f".holdfast/runs/{uid}/a1/outputs")


@over_ssh
def test_what_root_made_is_given_back_when_it_was_cancelled(seat: Seat) -> None:
    assert seat.user is not None
    seat.target("containerUser: root")
    seat.begin(WRITES + WAITING)
    assert seat.desk.holdfast("cancel").code == 0
    assert seat.desk.wait_for_end(limit=120)["status"] == "Canceled"
    assert {path.lstat().st_uid for path in seat.attempt.rglob("*")} == {seat.uid}


@everywhere
def test_nothing_of_the_machine_is_given_away(seat: Seat) -> None:
    """S41"""
    seat.begin(WAITING)
    (seen,) = json.loads(seat.run("inspect", seat.container))
    host = seen["HostConfig"]
    assert not host["Privileged"]
    assert not host["CapAdd"]
    assert not [option for option in host["SecurityOpt"] or () if "unconfined" in option]
    for space in ("NetworkMode", "PidMode", "IpcMode", "UTSMode"):
        assert host[space] != "host", space
    assert not any("sock" in mount["Source"] for mount in seen["Mounts"])
    writable = sorted(mount["Destination"].rpartition("/")[2] for mount in seen["Mounts"] if mount["RW"])
    assert writable == ["inside", "metrics", "workspace"]
    assert {mount["Destination"].split("/")[-2] for mount in seen["Mounts"] if not mount["RW"]} == {"runner"}
    seat.go()
    assert seat.desk.wait_for_end(limit=120)["status"] == "Completed"


@everywhere
def test_a_run_reaches_neither_another_run_nor_what_they_share(seat: Seat) -> None:
    """S42"""
    give_tools(seat)
    seat.target("userManagedEnvironment: false")
    wheels = seat.published(index().path / "files").as_uri()
    (seat.desk.project / "requirements.txt").write_text(f"--no-index\n--find-links {wheels}\ntinypip==1.1\n")
    seat.begin("import tinypip\n" + WAITING)
    other = seat.desk.record()["run_number"]
    first = seat.attempt
    store = str(seat.store).partition("/root")[2] if seat.user else str(seat.store)
    result = seat.submit(
        f"""
import os, sys, tinypip
runs = os.path.join({store!r}, 'runs')
print('runs', [name for name in os.listdir(runs) if name in {first.parent.name!r}])
for place in (sys.prefix, os.path.dirname(tinypip.__file__), os.path.join({store!r}, 'runner'), runs):
    for folder, _, _ in os.walk(place):
        if folder.startswith(os.environ['HOLDFAST_METRICS_DIR'].rpartition('/')[0]):
            continue
        try:
            open(os.path.join(folder, 'written'), 'w').close()
        except OSError:
            continue
        if not os.stat(folder).st_dev == os.stat('/').st_dev:
            print('wrote into', folder)
"""
    )
    assert result.code == 0, result
    assert "runs []\n" in result.text
    assert "wrote into" not in result.text
    assert not list(first.rglob("written")) + list((seat.store / "envs").rglob("written"))
    assert not list((seat.store / "runner").rglob("written"))
    (first / "workspace/above/work" / "go").touch()
    assert seat.desk.wait_for_end(str(other), limit=120)["status"] == "Completed"
    eventually(lambda: seat.containers() == [], 60)


@with_docker_over_ssh
def test_a_daemon_that_does_not_admit_the_caller(seat: Seat) -> None:
    assert seat.user is not None
    socket = seat.engine.files("/run/docker.sock")
    socket.chmod(0o600)
    try:
        result = seat.submit("print(1)")
        assert result.code != 0
        assert "permission denied" in result.err
        assert "sudo usermod -aG docker $USER" in result.err, result
        assert seat.desk.holdfast("history", "list", "-o", "json").json == []
    finally:
        socket.chmod(0o666)
    assert seat.submit("print(1)").code == 0
