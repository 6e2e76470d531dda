"""``holdfast image``: images get to a machine over the connection to it, whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from containers.conftest import archive, target
from enginelab import Podman

if TYPE_CHECKING:
    from conftest import Desk
    from enginelab import Docker
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User


@pytest.fixture
def seat(desk: Desk, docker: Docker) -> Desk:
    """A desk with docker."""
    desk.env.update(docker.environment)
    target(desk, "docker", "engine: docker")
    return desk


@pytest.fixture
def both(seat: Desk, podman: Podman) -> Desk:
    seat.env["PATH"] = f"{podman.environment['PATH'].split(':')[0]}:{seat.env['PATH']}"
    target(seat, "podman", "engine: podman")
    return seat


def names(desk: Desk, config: str) -> list[str]:
    rows = desk.holdfast("image", "list", "-c", config, "-o", "json").json
    return [name for row in rows for name in row["names"]]


def test_an_archive_comes_in_and_goes_out_again(seat: Desk, docker: Docker, tmp_path: Path) -> None:
    file = archive(tmp_path / "image.tar", "tiny:1")
    result = seat.holdfast("image", "import", "-c", "docker", str(file))
    assert (result.code, result.text) == (0, "tiny:1\n"), result
    row = next(
        row for row in seat.holdfast("image", "list", "-c", "docker", "-o", "json").json if row["name"] == "tiny:1"
    )
    assert row["brought"] is None
    assert row["bytes"] >= 5_000_000
    out = tmp_path / "out.tar"
    assert seat.holdfast("image", "export", "-c", "docker", "tiny:1", str(out)).code == 0
    docker.run("rmi", "tiny:1")
    assert "tiny:1" not in names(seat, "docker")
    with out.open("rb") as source:
        assert seat.holdfast("image", "import", "-c", "docker", "-", stdin=source).text == "tiny:1\n"
    assert docker.run("image", "inspect", "--format", "{{.Id}}", "tiny:1").stdout.strip() == f"sha256:{row['id']}"
    docker.run("rmi", "tiny:1")


@pytest.mark.parametrize(("here", "there"), [("docker", "podman"), ("podman", "docker")])
def test_engines_understand_each_other(
    both: Desk, docker: Docker, podman: Podman, tmp_path: Path, here: str, there: str
) -> None:
    """The engine here is the one that has the image; the name is one that a .compute file can say."""
    name = f"from-{here}:1"
    file = archive(tmp_path / "image.tar", name)
    assert both.holdfast("image", "import", "-c", here, str(file)).code == 0
    result = both.holdfast("image", "import", "-c", there, name)
    assert result.code == 0, result
    said = result.text.strip()
    assert said.removeprefix("localhost/").removeprefix("docker.io/library/") == name  # docker 26
    assert said in names(both, there)
    for engine in (docker, podman):
        engine.run("image", "inspect", name)
        engine.run("rmi", name)


def test_half_an_archive_names_nothing(seat: Desk, tmp_path: Path) -> None:
    file = archive(tmp_path / "image.tar", "half:1")
    os.truncate(file, 3_000_000)
    result = seat.holdfast("image", "import", "-c", "docker", str(file))
    assert result.code == 65
    assert "the archive cannot be loaded" in result.err
    assert "docker save" in result.err
    assert "half:1" not in names(seat, "docker")


def test_a_client_that_is_killed_leaves_nothing(seat: Desk, tmp_path: Path) -> None:
    content = archive(tmp_path / "image.tar", "cut:1", size=30_000_000).read_bytes()
    process = seat.start("image", "import", "-c", "docker", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(content[: len(content) // 2])
    process.stdin.flush()
    eventually(lambda: bool(_loaders(seat)), 60)
    process.kill()
    process.communicate()
    eventually(lambda: not _loaders(seat), 60)
    assert "cut:1" not in names(seat, "docker")
    assert seat.holdfast("image", "import", "-c", "docker", str(tmp_path / "image.tar")).text == "cut:1\n"


def test_ctrl_c_leaves_nothing(seat: Desk, tmp_path: Path) -> None:
    content = archive(tmp_path / "image.tar", "stopped:1", size=30_000_000).read_bytes()
    process = seat.start("image", "import", "-c", "docker", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(content[: len(content) // 2])
    process.stdin.flush()
    eventually(lambda: bool(_loaders(seat)), 60)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    eventually(lambda: not _loaders(seat), 60)
    assert "stopped:1" not in names(seat, "docker")


def test_a_file_is_not_overwritten_and_never_half_there(seat: Desk, tmp_path: Path) -> None:
    out = tmp_path / "there" / "out.tar"
    out.parent.mkdir()
    missing = seat.holdfast("image", "export", "-c", "docker", "nobody/has:this", str(out))
    assert missing.code == 2
    assert "no such image nobody/has:this" in missing.err
    assert list(out.parent.iterdir()) == []
    out.write_text("mine")
    assert seat.holdfast("image", "export", "-c", "docker", "base:py", str(out)).code == 2
    assert out.read_text() == "mine"
    assert seat.holdfast("image", "export", "-c", "docker", "base:py", str(out), "--force").code == 0
    assert out.stat().st_size > 50_000_000
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("./absent.tar", "no such file"),
        ("Not A Name", "is not a valid image name"),
        ("rootfs:/srv", "a folder is not an image"),
        ("nobody/has:this", "no such image nobody/has:this"),
    ],
)
def test_what_cannot_be_brought_is_said(seat: Desk, word: str, said: str) -> None:
    result = seat.holdfast("image", "import", "-c", "docker", word)
    assert result.code == 2
    assert said in result.err


def test_an_engine_that_does_not_answer_is_said(desk: Desk) -> None:
    desk.env["DOCKER_HOST"] = "unix:///nobody/listens.sock"
    target(desk, "docker", "engine: docker")
    result = desk.holdfast("image", "list", "-c", "docker")
    assert result.code == 65
    assert "no usable container engine" in result.err


def test_over_ssh_and_when_the_link_is_cut(
    laptop: Laptop, lab: Lab, gpu1: Host, ada: User, docker: Docker, tmp_path: Path
) -> None:
    """Docker is here, podman there; what was cut can be sent again."""
    with Podman(gpu1) as podman:
        podman.admit(ada, image=False)
        ada.authorize(laptop.client.key())
        laptop.env.update(docker.environment)
        assert laptop.attach(ada, gpu1).code == 0
        file = archive(tmp_path / "image.tar", "sent:1", size=30_000_000)
        process = laptop.start("image", "import", "-c", "lab1", "-", stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(file.read_bytes()[:15_000_000])
        process.stdin.flush()
        eventually(lambda: any("load" in one.argv for one in ada.processes()), 60)
        lab.cut(gpu1, "reset")
        with suppress(BrokenPipeError):  # it may have given up already
            process.stdin.write(file.read_bytes()[15_000_000:])
        _, err = process.communicate(timeout=120)
        assert process.returncode == 69, err
        assert b"nothing of it was stored" in err
        lab.heal(gpu1)
        assert names(laptop, "lab1") == []
        assert laptop.holdfast("image", "import", "-c", "lab1", str(file)).text == "localhost/sent:1\n"
        assert laptop.holdfast("image", "export", "-c", "lab1", "sent:1", str(tmp_path / "back.tar")).code == 0
        laptop.close_connections()


def _loaders(desk: Desk) -> list[str]:
    """Engines that are taking in an archive for this desk."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"load" in words and f"HOLDFAST_HOME={desk.home}".encode() in environ:
            found.append(entry.name)
    return found
