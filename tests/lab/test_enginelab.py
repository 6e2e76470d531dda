"""The engines that tests run containers on: real ones, that do what they must and leave nothing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import alive, eventually
from enginelab import IMAGE, Docker, Podman, base_rootfs
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sshlab import Client, Host, User

OUT_OF_MEMORY = ("python3", "-c", "bytearray(200 << 20)")


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    try:
        with Docker(tmp_path_factory.mktemp("docker")) as docker:
            yield docker
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    try:
        with Podman(tmp_path_factory.mktemp("podman")) as podman:
            yield podman
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture(scope="module")
def rootless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    try:
        with Podman(tmp_path_factory.mktemp("rootless"), rootless=True) as podman:
            yield podman
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    try:
        with Lab(["gpu1"]) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def gpu1(lab: Lab) -> Iterator[Host]:
    yield lab["gpu1"]
    lab.reset()


@pytest.fixture
def ada(gpu1: Host) -> User:
    return gpu1.user("ada")


@pytest.fixture
def laptop(lab: Lab, gpu1: Host, ada: User, tmp_path: Path) -> Client:
    client = lab.client(tmp_path / "user")
    ada.authorize(client.key())
    client.trust(gpu1)
    return client


def test_container_writes_host_files_as_the_given_user(docker: Docker, tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    write = ("run", "--rm", "--user", "12345:12345", "--volume", f"{tmp_path}:/x", IMAGE, "sh", "-c", "id -u > /x/uid")
    docker.run(*write)
    assert (tmp_path / "uid").read_text() == "12345\n"
    assert (tmp_path / "uid").stat().st_uid == 12345


def test_the_usual_client_finds_it_by_the_environment(docker: Docker) -> None:
    env = {**os.environ, **docker.environment}
    seen = subprocess.run(["docker", "images", "-q", IMAGE], env=env, check=True, capture_output=True).stdout
    assert seen.strip()


def test_processes_keep_the_machines_ids(docker: Docker) -> None:
    name = docker.run("run", "--detach", IMAGE, "sleep", "10000").stdout.strip()
    pid = docker.run("inspect", "--format", "{{.State.Pid}}", name).stdout.strip()
    assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\00010000\0"
    docker.run("rm", "--force", name)


def test_docker_says_when_memory_ran_out(docker: Docker) -> None:
    docker.run("run", "--name", "greedy", "--memory", "64m", IMAGE, *OUT_OF_MEMORY, check=False)
    said = docker.run("inspect", "--format", "{{.State.OOMKilled}} {{.State.ExitCode}}", "greedy").stdout
    assert said == "true 137\n"


def test_the_next_docker_has_the_image_without_another_import(docker: Docker, tmp_path: Path) -> None:
    with Docker(tmp_path) as second:
        ids = [one.run("images", "--no-trunc", "-q", IMAGE).stdout for one in (docker, second)]
        assert ids[0] == ids[1] != ""
        assert second.run("ps", "--all", "--quiet").stdout == ""


@pytest.mark.parametrize("live_restore", [True, False])
def test_containers_outlive_the_daemon_only_with_live_restore(
    live_restore: bool, docker: Docker, tmp_path: Path
) -> None:
    with Docker(tmp_path, live_restore=live_restore) as own:
        own.run("run", "--detach", "--stop-signal", "KILL", "--name", "long", IMAGE, "sleep", "10000")
        own.restart()
        assert own.run("inspect", "--format", "{{.State.Running}}", "long").stdout == f"{live_restore}\n".lower()
        own.run("start", "long")
        own.kill()
        own.start()
        assert own.run("inspect", "--format", "{{.State.Running}}", "long").stdout == f"{live_restore}\n".lower()


def test_podman_as_root(podman: Podman, tmp_path: Path) -> None:
    env = {**os.environ, **podman.environment}
    run = ["podman", "run", "--rm", "--network", "none", "--volume", ".:/x", IMAGE, "sh", "-c", "id -u > /x/uid"]
    subprocess.run(run, env=env, cwd=tmp_path, check=True)
    assert (tmp_path / "uid").read_text() == "0\n"
    limited = ("run", "--rm", "--memory", "64m", IMAGE, *OUT_OF_MEMORY)
    assert podman.run(*limited, check=False, cwd=tmp_path).returncode == 137


def test_podman_with_a_folder_for_an_image_leaves_the_folder_as_it_is(podman: Podman) -> None:
    rootfs = base_rootfs()
    podman.run("run", "--rm", "--network", "none", "--rootfs", f"{rootfs}:O", "touch", "/written")
    assert not (rootfs / "written").exists()


def test_podman_rootless(rootless: Podman) -> None:
    rootless.run("run", "--rm", "--network", "none", "--volume", f"{rootless.home}:/x", IMAGE, "touch", "/x/by-root")
    keep = ("run", "--rm", "--network", "none", "--userns", "keep-id", "--volume", f"{rootless.home}:/x")
    rootless.run(*keep, IMAGE, "touch", "/x/by-user")
    owners = [rootless.files(rootless.home / name).stat().st_uid for name in ("by-root", "by-user")]
    assert owners == [rootless.uid, rootless.uid]
    assert rootless.uid


def test_docker_over_ssh_for_an_ordinary_user(gpu1: Host, ada: User, laptop: Client, docker: Docker) -> None:
    with Docker(gpu1) as there:
        mount = f"--user {ada.uid}:{ada.uid} --volume {ada.home}:{ada.home}"
        laptop.run("ssh", ada.login, f"docker run --rm {mount} {IMAGE} sh -c 'id -u > {ada.home}/uid'")
        assert ada.path("uid").read_text() == f"{ada.uid}\n"
        assert ada.path("uid").stat().st_uid == ada.uid
        greedy = shlex.join(["docker", "run", "--name", "greedy", "--memory", "64m", IMAGE, *OUT_OF_MEMORY])
        assert laptop.run("ssh", ada.login, greedy, check=False).returncode == 137
        assert json.loads(there.run("inspect", "greedy").stdout)[0]["State"]["OOMKilled"]
        gpu1.reboot()
        there.start()
        assert laptop.run("ssh", ada.login, f"docker images -q {IMAGE}").stdout


def test_podman_over_ssh_rootless(gpu1: Host, ada: User, laptop: Client, podman: Podman) -> None:
    with Podman(gpu1) as there:
        there.admit(ada)
        words = f"--network none --userns keep-id --volume {ada.home}:{ada.home}"
        laptop.run("ssh", ada.login, f"podman run --rm {words} {IMAGE} sh -c 'id -u > {ada.home}/uid'")
        assert ada.path("uid").read_text() == f"{ada.uid}\n"


KILLED = """
import sys, time
from pathlib import Path
from enginelab import IMAGE, Docker, Podman
folder, mark = Path(sys.argv[1]), sys.argv[2]
docker, podman = Docker(folder / "d", internet=True), Podman(folder / "p")
docker.run("run", "--detach", IMAGE, "sleep", mark)
podman.run("run", "--detach", IMAGE, "sleep", mark)
print(*docker.control_groups, *podman.control_groups, flush=True)
time.sleep(10000)
"""


def test_nothing_is_left_of_engines_whose_maker_was_killed(docker: Docker, podman: Podman, tmp_path: Path) -> None:
    mark = str(10**9 + uuid.uuid4().int % 10**9)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    before = _interfaces()
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path, mark], stdout=subprocess.PIPE, env=env) as maker:
        try:
            assert maker.stdout is not None
            groups = maker.stdout.readline().decode().split()
            started = _mentioning(mark.encode(), str(tmp_path).encode())
            assert [_words(pid)[0] for pid in started].count(b"sleep") == 2
            assert all(Path(group).is_dir() for group in groups)
        finally:
            maker.kill()
    eventually(lambda: not any(alive(pid) for pid in started), 120)
    eventually(lambda: not any(Path(group).exists() for group in groups), 120)
    assert _mentioning(mark.encode(), str(tmp_path).encode()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert _interfaces() == before


def _mentioning(*marks: bytes) -> list[int]:
    """Processes with any of these in their arguments."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if any(mark in word for word in _words(pid) for mark in marks)]


def _words(pid: int) -> list[bytes]:
    """A process's arguments: none if it has ended, or is about to."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _interfaces() -> set[str]:
    """Bridges and the like; the ends of other engines' containers come and go."""
    return {name for name in os.listdir("/sys/class/net") if not name.startswith("veth")}
