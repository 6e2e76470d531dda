"""A machine that lacks what a run needs, or says no: told before anything is sent, with the line that mends it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from enginelab import Docker, Podman
from lab.index import Wheel, write_index
from lab.nvidia import write_nvidia_smi
from lab.server import serve
from managed import manage
from sshlab import NoSuchPython, Unavailable

from .conftest import Reader, describe, fix_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import Host, User

TARGET = ("-c", "lab1")
CONTAINER = (
    "type: remotedocker",
    "baseDockerImage: base:py",
    "pythonLocation: python3",
    "userManagedEnvironment: true",
)


def test_a_python_that_is_not_there(reader: Reader, laptop: Laptop, ada: User) -> None:
    describe(laptop, ada, "pythonLocation: /opt/gone/bin/python")
    reader.follow(reader.refused(*TARGET, code=65, store=ada.path(".holdfast")))
    reader.passes(*TARGET)


def test_a_python_that_is_too_old(reader: Reader, laptop: Laptop, box: Host, ada: User) -> None:
    try:
        box.only_python("2.7")
    except NoSuchPython as why:
        pytest.skip(f"NOT TESTED: {why}")
    old = box.path("/usr/bin/python3")
    old.rename(box.path("/usr/bin/python2"))
    shutil.copy("/usr/bin/python3", box.path("/usr/bin/python3"), follow_symlinks=True)
    describe(laptop, ada, "pythonLocation: /usr/bin/python2")
    reader.follow(reader.refused(*TARGET, code=65, store=ada.path(".holdfast")))
    reader.passes(*TARGET)


def test_a_machine_without_any_python(reader: Reader, laptop: Laptop, box: Host, ada: User) -> None:
    describe(laptop, ada)
    box.only_python(None)
    shutil.copy("/usr/bin/python3", box.path("/opt/python3"), follow_symlinks=True)
    box.program("/usr/local/bin/apt-get", '#!/bin/sh\n[ "$*" = "install -y python3" ] && cp /opt/python3 /usr/bin/\n')
    reader.follow(reader.refused(*TARGET, code=65, store=ada.path(".holdfast")))
    reader.passes(*TARGET)


def test_a_clock_that_is_wrong(reader: Reader, laptop: Laptop, box: Host, ada: User) -> None:
    """Only a warning: nothing that we do rests on it, but dates will be odd."""
    if not shutil.which("faketime"):
        pytest.skip("NOT TESTED: there is no faketime here")
    wrong = "[ -e /etc/clock-is-wrong ] && exec env FAKETIME_DONT_FAKE_MONOTONIC=1 faketime -f +1h /usr/bin/python3"
    box.program("/opt/python3", f'#!/bin/sh\n{wrong} "$@"\nexec /usr/bin/python3 "$@"\n')
    box.program("/etc/clock-is-wrong", "")
    box.program("/usr/local/bin/timedatectl", '#!/bin/sh\n[ "$*" = "set-ntp true" ] && rm /etc/clock-is-wrong\n')
    describe(laptop, ada, "pythonLocation: /opt/python3")
    warned = reader.passes(*TARGET)
    assert "clock" in warned.err
    assert "s ahead of this machine's" in warned.err
    reader.follow(fix_of(warned))
    assert "clock" not in reader.passes(*TARGET).err


def test_unknown_host_key_is_refused_with_the_ssh_command(
    reader: Reader, laptop: Laptop, ada: User, tmp_path: Path
) -> None:
    describe(laptop, ada, "hostKey: -")
    fix = reader.refused(*TARGET, code=76, store=ada.path(".holdfast"))
    yes = tmp_path / "yes"
    yes.write_text("#!/bin/sh\necho yes\n")
    yes.chmod(0o755)
    laptop.env.update(SSH_ASKPASS=str(yes), SSH_ASKPASS_REQUIRE="force")
    reader.follow(fix)
    for name in ("SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"):
        del laptop.env[name]
    reader.passes(*TARGET)


@pytest.fixture
def docker(box: Host) -> Iterator[Docker]:
    try:
        with Docker(box) as docker:
            yield docker
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_a_daemon_that_is_down(reader: Reader, laptop: Laptop, box: Host, ada: User, docker: Docker) -> None:
    describe(laptop, ada, *CONTAINER, "engine: docker")
    docker.stop()
    box.run("mkfifo", "/run/asked", "/run/done")
    box.program(
        "/usr/local/bin/systemctl", '#!/bin/sh\n[ "$*" = "start docker" ] && echo go > /run/asked && cat /run/done\n'
    )
    fix = reader.refused(*TARGET, code=65, store=ada.path(".holdfast"))

    def be_the_service_manager() -> None:
        box.path("/run/asked").read_text()
        docker.start()
        box.path("/run/done").write_text("")

    manager = threading.Thread(target=be_the_service_manager, daemon=True)
    manager.start()
    reader.follow(fix)
    manager.join()
    reader.passes(*TARGET)


def test_a_daemon_that_does_not_talk_to_us(
    reader: Reader, laptop: Laptop, box: Host, ada: User, docker: Docker
) -> None:
    """Who is let into a group must log in anew: an open connection has the old rights."""
    describe(laptop, ada, *CONTAINER, "engine: docker")
    if "\ndocker:" not in box.path("/etc/group").read_text():
        box.run("groupadd", "docker")
    box.run("sh", "-ec", "chgrp docker /run/docker.sock && chmod 660 /run/docker.sock")
    reader.follow(reader.refused(*TARGET, code=65, store=ada.path(".holdfast")))
    reader.passes(*TARGET)


def test_a_machine_without_an_engine(reader: Reader, laptop: Laptop, box: Host, ada: User) -> None:
    try:
        with Podman(box) as podman:
            podman.admit(ada)
            box.run("sh", "-ec", "mkdir -p /opt/shelf; for each in $(which -a podman); do cp -a $each /opt/shelf; done")
            box.remove_programs("podman", "docker")
            install = '[ "$*" = "install podman uidmap" ] && cp -a /opt/shelf/podman /usr/bin/'
            box.program("/usr/local/bin/apt-get", f"#!/bin/sh\n{install}\n")
            describe(laptop, ada, *CONTAINER, "network: none")
            reader.follow(reader.refused(*TARGET, code=65, store=ada.path(".holdfast")))
            reader.passes(*TARGET)
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def test_a_wheel_that_is_newer_than_the_driver(desk: Desk, tmp_path: Path) -> None:
    manage(desk)
    site = tmp_path / "site"
    for build in ("cu126", "cu130"):
        write_index(tmp_path / build, [Wheel("torch", f"2.14.0+{build}", f"BUILD = {build!r}\n")])
        shutil.copytree(tmp_path / build / "simple", site / "whl" / build)
        shutil.copytree(tmp_path / build / "files", site / "whl" / "files", dirs_exist_ok=True)
    desk.env["PATH"] = f"{write_nvidia_smi(desk.user_home / 'bin', '550.54.14', '12.4', '8.0')}:{desk.env['PATH']}"
    desk.script("import torch; print('torch of', torch.BUILD)\n")
    reader = Reader(desk)
    with serve(site) as server:
        (desk.project / "requirements.txt").write_text(f"--index-url {server.url}/whl/cu130\ntorch\n")
        fix = reader.refused("-c", "local", code=65)
        assert server.paths == []
        reader.follow(fix)
        assert b"torch of cu126" in reader.passes("-c", "local").out


def test_gpus_that_are_not_there(reader: Reader, laptop: Laptop, ada: User) -> None:
    describe(laptop, ada)
    (laptop.project / "aml_config" / "big.runconfig").write_text("Target: lab1\nFramework: Python\ngpus: 2\n")
    fix = reader.refused("-c", "big", code=65, store=ada.path(".holdfast"))
    assert fix.endswith("big.runconfig:3: gpus: 0")
    reader.follow(fix)
    reader.passes("-c", "big")


def test_all_of_it_can_be_asked_without_a_start(laptop: Laptop, ada: User) -> None:
    describe(laptop, ada)
    result = laptop.holdfast("submit", *TARGET, "--preflight", "-o", "json", "train.py")
    assert result.code == 0, result
    assert [(row["name"], row["state"]) for row in json.loads(result.out)] == [
        ("reach", "ok"),
        ("disk", "ok"),
        ("locks", "ok"),
        ("clock", "ok"),
    ]
    assert not ada.path(".holdfast/objects").exists()
    assert not os.path.exists(laptop.home / "runs")
    failed = laptop.holdfast("submit", *TARGET, "--preflight", "--gpus", "1", "train.py")
    assert failed.code == 65, failed
    assert "1 requested, but this machine has none" in failed.text
