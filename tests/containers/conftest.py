"""A person at a desk with a container engine, or with a machine that has one."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import Desk, eventually
from enginelab import Docker, Podman
from managed import SHELF, lend_tools
from ssh.conftest import PASSWORD, Laptop, ada, gpu1, lab, laptop, ssh_lab  # noqa: F401 - fixtures
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from conftest import Result
    from sshlab import User

WAYS = ("docker", "podman", "remote-docker", "remote-podman")
# Seen by clients, machines and containers of every user: the shelf may lie in a home of mode 0700.
PUBLIC = Path(f"/var/tmp/holdfast-tests-{os.getpid()}")
UP = "print('up', flush=True)\n"
WAITING = f"import os, time\n{UP}while not os.path.exists('go'): time.sleep(0.02)\n"


def own_devices(more: str) -> str:
    """For a machine of the lab: a /dev of its own with what programs need, and ``more`` of what is in /run/dev."""
    return f"""
mkdir /run/dev
mount -t tmpfs dev /run/dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/fuse /dev/fd /dev/std* /dev/ptmx /run/dev
mkdir /run/dev/pts /run/dev/shm
mount --bind /dev/pts /run/dev/pts
mount --bind /dev/shm /run/dev/shm
{more}
mount --move /run/dev /dev
"""


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


def target(desk: Desk, name: str, *lines: str) -> None:
    """A target of containers that run the image's own Python; ``lines`` come on top."""
    config = desk.project / "aml_config"
    config.mkdir(exist_ok=True)
    plain = ["type: docker", "baseDockerImage: base:py", "pythonLocation: python3", "userManagedEnvironment: true"]
    said = {line.partition(":")[0]: line for line in (*plain, *lines)}
    (config / f"{name}.compute").write_text("\n".join([*said.values(), ""]))
    desk.holdfast("trust", name)  # fails for a file with errors, which is what some tests are about


def archive(place: Path, name: str, size: int = 5_000_000) -> Path:
    """What ``docker save`` would write of an image with one file in it."""
    import hashlib
    import json
    import random

    layer = _tar({"content": random.Random(name).randbytes(size)})
    digest = hashlib.sha256(layer).hexdigest()
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"layer.tar": layer, "config.json": config, "manifest.json": manifest}
    place.write_bytes(
        _tar({name: text if isinstance(text, bytes) else json.dumps(text).encode() for name, text in files.items()})
    )
    return place


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return out.getvalue()


class Seat:
    """A user whose target ``box`` runs containers: on this machine, or as ``user`` on a lab machine."""

    def __init__(self, desk: Desk, engine: Docker | Podman, user: User | None) -> None:
        self.desk = desk
        self.engine = engine
        self.user = user
        self.uid = user.uid if user else os.getuid()
        self.name = "docker" if isinstance(engine, Docker) else "podman"
        self.store = user.path(".holdfast") if user else desk.home
        self.images_before = self.images()

    def target(self, *lines: str) -> None:
        """``lines`` come on top of what runs the image's own Python."""
        said = [f"engine: {self.name}", *lines]
        if self.user and self.name == "podman":
            said.insert(1, "network: none")  # rootless, it has no other here
        if self.user:
            where = [f"address: {self.user.host.hostname}", f"username: {self.user.name}"]
            said = ["type: remotedocker", *where, f"hostKey: {self.user.host.public_key()}", *said]
        target(self.desk, "box", *said)

    def published(self, folder: Path) -> Path:
        """A folder of ours, where the target's user has it in a container too."""
        if not self.user:
            return folder
        shutil.copytree(folder, PUBLIC / folder.name, dirs_exist_ok=True)
        return PUBLIC / folder.name

    def submit(self, text: str, *words: str, arguments: tuple[str, ...] = (), **more: Any) -> Result:
        self.desk.script(text)
        return self.desk.holdfast("submit", "-c", "box", *words, "train.py", *arguments, **more)

    def begin(self, text: str, *words: str, **more: Any) -> None:
        """Start a script whose first line says ``up``, and wait for that."""
        result = self.submit(text, "--no-wait", *words, **more)
        assert result.code == 0, result
        eventually(lambda: b"up\n" in self.attempt.joinpath("log").read_bytes(), 120)

    @property
    def attempt(self) -> Path:
        """The last run's folder where it runs."""
        return self.store / "runs" / str(self.desk.record()["uid"]) / "a1"

    @property
    def container(self) -> str:
        """What the last run's is called."""
        return f"holdfast-{self.desk.record()['uid']}-a1"

    def go(self) -> None:
        """Let a script come to its end that waits for it."""
        (self.attempt / "workspace/above/work" / "go").touch()

    def run(self, *words: str, check: bool = True) -> str:
        """A command of the engine, as the caller has it there."""
        if self.user and self.name == "podman":
            return self.user.run("podman", *words, check=check).stdout
        return self.engine.run(*words, check=check).stdout

    def containers(self) -> list[str]:
        return self.run("ps", "--all", "--format", "{{.Names}}").split()

    def images(self) -> list[str]:
        return sorted(self.run("images", "--format", "{{.Repository}}:{{.Tag}}").split())


@pytest.fixture(scope="module")
def machines() -> Iterator[Lab]:
    """They see the shelf with tools and wheels where this machine has it."""
    SHELF.mkdir(exist_ok=True)
    PUBLIC.mkdir(exist_ok=True)
    try:
        with Lab(shares={str(SHELF): SHELF, str(PUBLIC): PUBLIC}) as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")
    finally:
        shutil.rmtree(PUBLIC)


class Ground:
    """An engine, and the account that has it on another machine."""

    def __init__(self, engine: Docker | Podman, user: User | None) -> None:
        self.engine = engine
        self.user = user


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """One of ``WAYS``, or ``live-docker``: a module's tests are parametrised with it."""
    kind = Docker if request.param.endswith("docker") else Podman
    machine = "gpu1" if kind is Docker else "gpu2"
    host = request.getfixturevalue("machines")[machine] if request.param.startswith("remote") else None
    try:
        more = {"live_restore": True} if request.param.startswith("live") else {}
        with kind(host or tmp_path_factory.mktemp(request.param), **more) as engine:
            user = host.user("ada", password=PASSWORD) if host else None
            if user and isinstance(engine, Podman):
                engine.admit(user)
            yield Ground(engine, user)
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def seat(ground: Ground, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Seat]:
    """When a test is over nothing of it is left with the engine."""
    with sitting(ground, request, tmp_path) as seat:
        yield seat
        try:
            eventually(lambda: seat.containers() == [], 60)  # it is taken away when the end has been told
            assert seat.images() == seat.images_before
        finally:
            for name in seat.containers():
                seat.run("rm", "--force", name)


@contextmanager
def sitting(ground: Ground, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Seat]:
    if ground.user is None:
        desk: Desk = request.getfixturevalue("desk")
        desk.env.update(DOCKER_HOST=ground.engine.environment.get("DOCKER_HOST", "unix:///nobody/listens"))
        if isinstance(ground.engine, Podman):
            desk.env["PATH"] = f"{ground.engine.environment['PATH'].split(':')[0]}:{desk.env['PATH']}"
    else:
        (tmp_path / "desk").mkdir()
        desk = Laptop(tmp_path / "desk", ground.user.host.lab.client(tmp_path / "home"))
        ground.user.authorize(desk.client.key())
    seat = Seat(desk, ground.engine, ground.user)
    seat.target()
    yield seat
    if isinstance(desk, Laptop):
        desk.close_connections()
        desk.client.close()


def give_tools(seat: Seat) -> None:
    """Those that build environments, as a copy: what a link leads to would not be there in a container."""
    lend_tools(seat.desk)
    lent = seat.desk.home / "builder"
    if seat.user is None:
        real = lent.resolve()
        lent.unlink()
        subprocess.run(["cp", "-a", str(real), str(lent)], check=True)
    elif not seat.user.path(".holdfast/builder").exists():
        seat.user.run("sh", "-c", f"mkdir -p .holdfast && cp -a {lent.resolve()} .holdfast/builder")
