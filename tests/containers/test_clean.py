"""``holdfast experiment clean`` frees disk space and removes nothing that is in use."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import subprocess
import time
from glob import glob
from typing import TYPE_CHECKING, Any

import pytest

from conftest import HOLDFAST, eventually
from containers.conftest import archive, target
from enginelab import Docker

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk, Result
    from ssh.conftest import Laptop
    from sshlab import Host, User

WAITING = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('whole')"
# In a folder that is no result and so stays where it is.
FAILING = "import os; os.mkdir('.cache'); open('.cache/big', 'wb').write(bytes(2_000_000)); raise SystemExit(3)"
KEY = "ab" * 16


@pytest.fixture
def seat(desk: Desk, docker: Docker) -> Desk:
    desk.env.update(docker.environment)
    target(desk, "docker", "engine: docker")
    return desk


@pytest.fixture
def elsewhere(desk: Desk, tmp_path: Path) -> Path:
    """``far`` has a store of its own, as another machine has; returns it."""
    config = desk.project / "aml_config"
    config.mkdir(exist_ok=True)
    (config / "far.compute").write_text(f"type: local\nroot: {tmp_path / 'far'}\n")
    desk.trust("far")
    return tmp_path / "far"


def clean(desk: Desk, config: str, *words: str) -> dict[str, dict[str, Any]]:
    result = desk.holdfast("experiment", "clean", "-c", config, "-o", "json", *(words or ("--yes",)))
    assert result.code == 0, result
    return {row["what"]: row for row in result.json}


def submit(desk: Desk, config: str, text: str, *words: str) -> Result:
    desk.script(text)
    return desk.holdfast("submit", "-c", config, *words, "train.py")


def start(desk: Desk, config: str) -> Path:
    """A run that goes on until its folder has a file ``go``; returns that path."""
    submit(desk, config, WAITING, "--no-wait")
    eventually(lambda: desk.holdfast("logs").out == b"up\n", 60)
    return desk.attempt() / "workspace/above/work" / "go"


def containers(docker: Docker) -> list[str]:
    return docker.run("ps", "--all", "--format", "{{.Names}}").stdout.split()


def test_history_stays_and_what_ended_runs_worked_in_goes(desk: Desk) -> None:
    assert submit(desk, "local", FAILING).code == 3
    work = desk.attempt() / "workspace/above/work"
    assert (work / ".cache" / "big").exists()
    offered = clean(desk, "local", "--dry-run")
    assert work.exists()
    gone = clean(desk, "local")
    assert gone["work folders"] == offered["work folders"]
    assert gone["work folders"]["count"] == 1
    assert gone["work folders"]["bytes"] >= 2_000_000
    assert not work.exists()
    assert "run folders" not in gone
    assert "images" not in gone
    assert desk.record()["exit_code"] == 3
    assert clean(desk, "local")["work folders"]["count"] == 0


def test_nothing_goes_without_a_yes(desk: Desk) -> None:
    submit(desk, "local", FAILING)
    refused = desk.holdfast("clean", "-c", "local")
    assert refused.code == 2
    assert "work folders: 1" in refused.err
    assert "--yes" in refused.err
    assert b"nothing was removed" in _at_terminal(desk, b"\n")
    assert (desk.attempt() / "workspace/above/work").exists()
    assert b"freed on local" in _at_terminal(desk, b"y\n")
    assert not (desk.attempt() / "workspace/above/work").exists()


def _at_terminal(desk: Desk, typed: bytes) -> bytes:
    ours, theirs = pty.openpty()
    argv = [str(HOLDFAST), "experiment", "clean", "-c", "local"]
    with subprocess.Popen(argv, cwd=desk.project, env=desk.env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, typed)
        said = b""
        try:
            while block := os.read(ours, 4096):
                said += block
        except OSError:
            pass  # the terminal's other end is closed
        process.wait()
    os.close(ours)
    assert b"[y/N]" in said
    return said


def test_a_run_that_is_all_at_home_goes_from_the_other_store(desk: Desk, elsewhere: Path) -> None:
    text = "print('said'); open('outputs/small', 'w').write('kept')"
    assert submit(desk, "far", text).code == 0
    small = desk.record()["uid"]
    assert submit(desk, "far", "open('outputs/large', 'wb').write(bytes(17 * 1024 * 1024))").code == 0
    large = desk.record()["uid"]
    row = clean(desk, "far")["run folders"]
    assert (row["count"], row["stays"]) == (1, 1)
    assert "holdfast return" in row["why"]
    assert not (elsewhere / "runs" / small).exists()
    assert (elsewhere / "runs" / large).exists()
    assert desk.holdfast("logs", "-r", "1").out == b"said\n"
    assert desk.holdfast("history", "info", "-r", "1", "-a", "outputs/small").out == b"kept"
    assert desk.holdfast("experiment", "return", "-r", "2").code == 0
    assert clean(desk, "far")["run folders"]["count"] == 1
    assert list((elsewhere / "runs").iterdir()) == []
    assert (desk.attempt() / "outputs" / "large").stat().st_size == 17 * 1024 * 1024


def test_a_damaged_mirror_keeps_the_original(desk: Desk, elsewhere: Path) -> None:
    assert submit(desk, "far", "print('said')").code == 0
    (desk.attempt() / "log").write_bytes(b"torn")
    assert clean(desk, "far")["run folders"]["count"] == 0
    assert (elsewhere / "runs" / desk.record()["uid"] / "a1" / "log").read_bytes() == b"said\n"


def test_runs_of_others_stay(desk: Desk, elsewhere: Path) -> None:
    assert submit(desk, "far", "print('said')").code == 0
    uid = desk.record()["uid"]
    desk.home.rename(desk.home.with_name("other"))
    desk.trust("far")
    assert clean(desk, "far")["run folders"]["count"] == 0
    assert (elsewhere / "runs" / uid).exists()


def test_project_files_that_no_run_there_needs_go_after_an_hour(desk: Desk, elsewhere: Path) -> None:
    data = desk.project / "data.bin"
    data.write_bytes(os.urandom(300_000))
    assert submit(desk, "far", "print('first')").code == 0
    data.write_bytes(os.urandom(200_000))
    assert submit(desk, "far", "open('outputs/large', 'wb').write(bytes(17 * 1024 * 1024))").code == 0
    row = clean(desk, "far", "--dry-run")["project files"]
    assert (row["count"], row["stays"], row["young"]) == (0, 0, 3), "data.bin, train.py and the tree of the first run"
    assert row["young_bytes"] >= 300_000
    assert row["why"] == f"3 more ({row['young_bytes'] / 1000:.0f} kB) kept: younger than an hour"
    _age_objects(elsewhere)
    offered = clean(desk, "far", "--dry-run")["project files"]
    gone = clean(desk, "far")["project files"]
    assert gone == offered
    assert (gone["count"], gone["young"]) == (3, 0)
    assert gone["bytes"] >= 300_000
    sizes = [path.stat().st_size for path in _objects(elsewhere)]
    assert (200_000 in sizes, 300_000 in sizes) == (True, False)
    assert clean(desk, "far")["project files"]["count"] == 0, "the second run stays: its output exists only there"
    again = desk.holdfast("restore", "-r", "1", "--yes")
    assert again.code == 0, again
    assert desk.holdfast("submit", "-c", "far", "train.py").out.count(b"\nfirst\n") == 1, "what went is sent again"


def test_project_files_stay_if_a_run_cannot_be_read(desk: Desk, elsewhere: Path) -> None:
    assert submit(desk, "far", "print('first')").code == 0
    _age_objects(elsewhere)
    before = _objects(elsewhere)
    other = elsewhere / "runs" / ("0" * 32)
    other.mkdir()
    for text in ('{"tree": "/etc"}', json.dumps({"tree": "0" * 64})):
        (other / "run.json").write_text(text)
        row = clean(desk, "far")["project files"]
        assert (row["count"], row["stays"], "nothing is removed" in row["why"]) == (0, 1, True), row
    assert _objects(elsewhere) == before


def test_a_submit_that_meets_a_cleanup_sends_what_was_removed(desk: Desk, elsewhere: Path) -> None:
    """The start checks the objects and writes its run.json under a lock that a cleanup has to itself."""
    assert submit(desk, "far", "print('said')").code == 0
    lock = elsewhere / "objects" / "tmp" / "lock"
    with lock.open("w") as cleanup:
        fcntl.flock(cleanup, fcntl.LOCK_EX)
        process = desk.start("submit", "-c", "far", "train.py")
        eventually(lambda: _is_waiting_for(lock))
        assert len(list((elsewhere / "runs").iterdir())) == 1
        for path in _objects(elsewhere):
            path.unlink()
    with process:
        out, err = process.communicate()
    assert (process.returncode, b"\nsaid\n" in out) == (0, True), err


def test_project_files_stay_while_a_run_is_being_started(desk: Desk, elsewhere: Path) -> None:
    assert submit(desk, "far", "print('said')").code == 0
    _age_objects(elsewhere)
    with (elsewhere / "objects" / "tmp" / "lock").open("w") as start_or_upload:
        fcntl.flock(start_or_upload, fcntl.LOCK_SH)
        row = clean(desk, "far")["project files"]
    assert (row["count"], row["why"]) == (0, "project files are being received")
    assert clean(desk, "far")["project files"]["count"] > 0


def _objects(store: Path) -> set[Path]:
    return {path for path in (store / "objects").glob("??/*") if len(path.name) == 62}


def _age_objects(store: Path) -> None:
    for path in _objects(store):
        os.utime(path, (time.time() - 7200,) * 2)


def _is_waiting_for(lock: Path) -> bool:
    """Whether a process other than this one has the file open: it polls for the lock."""
    own = f"/proc/{os.getpid()}/"
    return any(not link.startswith(own) and _leads_to(link, lock) for link in glob("/proc/[0-9]*/fd/*"))


def _leads_to(link: str, path: Path) -> bool:
    try:
        return os.readlink(link) == str(path)
    except OSError:
        return False


def test_environments_in_use_stay_and_their_tools_while_one_is_made(desk: Desk) -> None:
    for place in (f"envs/{KEY}", f"envs/{KEY[::-1]}", "cache/packages", "builder/tools"):
        (desk.home / place).mkdir(parents=True)
        (desk.home / place / "holdfast-environment.json").write_text("{}")
    (desk.home / f"envs/{KEY}").chmod(0o500)
    with Held(desk, f"use-{KEY}", fcntl.LOCK_SH), Held(desk, f"env-{KEY}", fcntl.LOCK_EX):
        rows = clean(desk, "local")
    assert (rows["environments"]["count"], rows["environments"]["stays"]) == (1, 1)
    assert [path.name for path in (desk.home / "envs").iterdir()] == [KEY]
    assert rows["package cache"]["why"] == rows["builder tools"]["why"] == "an environment is being built"
    assert (desk.home / "cache" / "packages").exists()
    rows = clean(desk, "local")
    assert [rows[name]["count"] for name in ("environments", "package cache", "builder tools")] == [1, 1, 1]
    left = [path for name in ("envs", "builder") for path in (desk.home / name).iterdir()]
    assert (left, (desk.home / "cache" / "packages").exists()) == ([], False)


def test_what_lies_behind_a_link_is_not_ours_to_remove(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "shared" / "packages").mkdir(parents=True)
    (desk.home / "cache").mkdir(parents=True)
    (desk.home / "cache" / "packages").symlink_to(tmp_path / "shared" / "packages")
    (desk.home / "builder").symlink_to(tmp_path / "shared")
    rows = clean(desk, "local")
    assert (rows["package cache"]["count"], rows["builder tools"]["count"]) == (0, 0)
    assert (tmp_path / "shared" / "packages").exists()


def test_clean_removes_unused_leftovers(desk: Desk) -> None:
    (desk.home / "arriving").mkdir(parents=True)
    old, young = desk.home / "arriving" / "old", desk.home / "arriving" / "young"
    for path in (old, young):
        path.write_bytes(bytes(100_000))
    os.utime(old, (0, 0))
    (desk.home / "envs" / f"{KEY}.tmp").mkdir(parents=True)
    with Held(desk, f"env-{KEY}", fcntl.LOCK_EX):
        assert clean(desk, "local")["leftovers"]["count"] == 1
    assert not old.exists()
    assert young.exists()
    assert (desk.home / "envs" / f"{KEY}.tmp").exists()
    assert clean(desk, "local")["leftovers"]["count"] == 1
    assert not (desk.home / "envs" / f"{KEY}.tmp").exists()


def test_a_live_run_survives_and_what_it_does_not_need_goes(seat: Desk, docker: Docker) -> None:
    go = start(seat, "docker")
    uid = seat.record()["uid"]
    label = ("--label", "holdfast.run=x", "base:py", "true")
    assert submit(seat, "docker", FAILING).code == 3
    stray, foreign = f"holdfast-{seat.record()['uid']}-a1", f"holdfast-{'0' * 32}-a1"
    docker.run("create", "--name", stray, *label)
    docker.run("create", "--name", foreign, *label)
    rows = clean(seat, "docker")
    assert (rows["containers"]["count"], rows["containers"]["stays"]) == (1, 1)
    assert (rows["work folders"]["count"], rows["work folders"]["stays"]) == (1, 1)
    assert sorted(containers(docker)) == sorted([f"holdfast-{uid}-a1", foreign])
    go.touch()
    assert seat.wait_for_end("1")["status"] == "Completed"
    assert seat.holdfast("logs", "-r", "1").out == b"up\nwhole\n"
    docker.run("rm", foreign)


def test_an_image_that_was_built_here_goes_when_no_run_uses_it(seat: Desk, docker: Docker) -> None:
    (seat.project / "image").mkdir()
    (seat.project / "image" / "Dockerfile").write_text("FROM base:py\nENV MADE=here\n")
    target(seat, "built", "engine: docker", "dockerfile: image/Dockerfile", "baseDockerImage: null")
    go = start(seat, "built")
    rows = seat.holdfast("image", "list", "-c", "built", "-o", "json").json
    assert {row["name"].split(":")[0]: row["brought"] for row in rows} == {"base": None, "holdfast-built": "built"}
    row = clean(seat, "built")["images"]
    assert (row["count"], row["stays"], row["why"]) == (0, 1, "in use")
    go.touch()
    assert seat.wait_for_end()["status"] == "Completed"
    row = clean(seat, "built")["images"]
    assert (row["count"], row["stays"]) == (1, 0)
    assert row["bytes"] > 50_000_000
    assert docker.run("image", "ls", "--format", "{{.Repository}}").stdout.split() == ["base"]


def test_clean_removes_pulled_images_without_another_tag(seat: Desk, docker: Docker, tmp_path: Path) -> None:
    """A registry stands at the end of ``docker pull``; here an archive does."""
    pulled = archive(tmp_path / "image.tar", "fetched:1")
    shim = tmp_path / "bin" / "docker"
    shim.parent.mkdir()
    real = shutil.which("docker", path=seat.env["PATH"])
    shim.write_text(f'#!/bin/sh\n[ "$1" = pull ] && exec {real} load -q -i {pulled}\nexec {real} "$@"\n')
    shim.chmod(0o755)
    seat.env["PATH"] = f"{shim.parent}:{seat.env['PATH']}"
    target(seat, "fetching", "engine: docker", "baseDockerImage: fetched:1")
    seat.script("print(1)")
    seat.holdfast("submit", "-c", "fetching", "train.py")  # there is no Python in it
    docker.run("tag", "fetched:1", "mine:1")
    assert clean(seat, "fetching")["images"]["why"] == "it has another name"
    docker.run("rmi", "mine:1")
    assert clean(seat, "fetching")["images"]["count"] == 1
    assert docker.run("image", "inspect", "fetched:1", check=False).returncode
    docker.run("load", "-i", str(pulled))
    assert clean(seat, "fetching")["images"]["count"] == 0, "this time it was not us"
    docker.run("rmi", "fetched:1")


def test_a_silent_engine_is_said_and_the_rest_goes(seat: Desk) -> None:
    submit(seat, "local", FAILING)
    seat.env["DOCKER_HOST"] = "unix:///nobody/listens.sock"
    rows = clean(seat, "docker")
    assert "no usable container engine" in rows["images"]["why"]
    assert rows["work folders"]["count"] == 1


def test_purge_takes_containers_and_images_along(laptop: Laptop, gpu1: Host, ada: User) -> None:
    with Docker(gpu1) as docker:
        ada.authorize(laptop.client.key())
        where = ("--name", "lab1", "--address", gpu1.hostname, "--username", ada.name)
        accept = ("--accept-host-key", gpu1.fingerprint("ed25519"))
        assert laptop.holdfast("computetarget", "attach", "remotedocker", *where, *accept).code == 0
        compute = laptop.project / "aml_config" / "lab1.compute"
        (laptop.project / "Dockerfile").write_text("FROM base:py\nENV MADE=here\n")
        lines = [
            line for line in compute.read_text().splitlines() if not line.startswith(("baseDockerImage", "environment"))
        ]
        lines += ["dockerfile: Dockerfile", "userManagedEnvironment: true", "pythonLocation: python3", ""]
        compute.write_text("\n".join(lines))
        result = submit(laptop, "lab1", "print('said')")
        assert result.code == 0, result
        name = f"holdfast-{laptop.record()['uid']}-a1"
        docker.run("create", "--name", name, "--label", f"holdfast.run={name}", "base:py", "true")
        docker.run("create", "--name", "theirs", "--label", "holdfast.run=theirs", "base:py", "true")
        purged = laptop.holdfast("computetarget", "detach", "lab1", "--purge")
        assert purged.code == 0, purged
        assert containers(docker) == ["theirs"]
        assert docker.run("image", "ls", "--format", "{{.Repository}}").stdout.split() == ["base"]
        assert not ada.path(".holdfast").exists()
        laptop.close_connections()


class Held:
    """A lock that a process holds."""

    def __init__(self, desk: Desk, name: str, how: int) -> None:
        (desk.home / "locks").mkdir(parents=True, exist_ok=True)
        self._file = (desk.home / "locks" / name).open("w")
        self._how = how

    def __enter__(self) -> None:
        fcntl.flock(self._file, self._how)

    def __exit__(self, *_: object) -> None:
        self._file.close()
