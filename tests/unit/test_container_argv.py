"""Command lines of container engines, by a row for each kind of engine and each key: nothing is run.

``HOLDFAST_REWRITE_GOLDEN=1 pytest tests/unit/test_container_argv.py`` rewrites the expected texts; review the diff.
"""

from __future__ import annotations

import csv
import json
import os
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.submit import container
from holdfast.runner.container import argv
from holdfast.runner.plan import container as parse_container

GOLDEN = Path(__file__).parents[1] / "golden" / "container"
UID = "0123456789abcdef0123456789abcdef"
NAME = argv.name_of(UID, "a1")
ATTEMPT = f"/home/ada/.holdfast/runs/{UID}/a1"
RUNNER = "/home/ada/.holdfast/runner/f00d"
DOCKER: dict[str, object] = {"name": "docker", "program": "/usr/bin/docker", "version": "28.2.2", "rootless": False}
PODMAN: dict[str, object] = {"name": "podman", "program": "/usr/bin/podman", "version": "4.3.1", "rootless": False}
IMAGE: dict[str, object] = {"id": "sha256:1111", "digest": "docker.io/library/python@sha256:2222"}
ROOTFS: dict[str, object] = {"id": "rootfs:/srv/debian", "digest": "1-2"}
PLAIN = ComputeTarget("box", "docker", base_docker_image="python:3.11")
EVERYTHING = PLAIN._replace(
    container_user="root:video",
    network="none",
    shm_size=2 * 10**9,
    memory=8 * 10**9,
    cpus=1.5,
    docker_arguments=("--ulimit", "nofile=100", "--env=A=b c"),
    nvidia_docker=True,
)
GPU = ["--device", "/dev/nvidia0", "--mount", "type=bind,source=/usr/lib/libcuda.so.1,target=/usr/lib/libcuda.so.1"]
PREFIX, SHARE = "/home/ada/.holdfast/envs/abc", "/home/ada/share/iris"
HOSTILE = "/home/a,b \"c\" 'd'\ne=\\f ü"


class Row(NamedTuple):
    engine: dict[str, object] = DOCKER
    compute: ComputeTarget = PLAIN
    found: dict[str, object] = IMAGE
    attempt: str = ATTEMPT
    prefix: str | None = None
    share: str | None = None
    links: tuple[str, ...] = ()
    selinux: bool = False
    gpu: tuple[str, ...] = ()

    def places(self) -> argv.Places:
        links = list(self.links)
        return argv.Places(self.attempt, RUNNER, self.prefix, self.share, links, (1000, 1001), self.selinux)

    def wish(self) -> dict[str, object]:
        return container.plan_section(self.compute, "python:3.11", self.engine, self.found, "/usr/bin/python3")

    def words(self) -> list[str]:
        return argv.words(self.engine, parse_container(self.wish()), self.places(), NAME, list(self.gpu))


ROWS = {
    "docker": Row(),
    "docker-rootless": Row({**DOCKER, "rootless": True}),
    "docker-rootless-user": Row({**DOCKER, "rootless": True}, PLAIN._replace(container_user="1000")),
    "podman": Row(PODMAN),
    "podman-rootless": Row({**PODMAN, "rootless": True}),
    "podman-rootless-root": Row({**PODMAN, "rootless": True}, PLAIN._replace(container_user="root")),
    "podman-rootfs": Row(PODMAN, found=ROOTFS),
    "podman-rootfs-everything": Row(PODMAN, EVERYTHING, ROOTFS, gpu=tuple(GPU)),
    "everything": Row(compute=EVERYTHING, prefix=PREFIX, share=SHARE, links=("/data",), selinux=True, gpu=tuple(GPU)),
    "copied": Row(compute=PLAIN._replace(shared_volumes=False), prefix=PREFIX, share=SHARE, links=("/data",)),
    "copied-everything": Row(compute=EVERYTHING._replace(shared_volumes=False), selinux=True, gpu=tuple(GPU)),
    "environment": Row(prefix=PREFIX),
    "share": Row(share=SHARE),
    "links": Row(links=("/data", "/mnt/a b")),
    "selinux": Row(selinux=True),
    "user": Row(compute=PLAIN._replace(container_user="nobody")),
    "network": Row(compute=PLAIN._replace(network="host")),
    "shm": Row(compute=PLAIN._replace(shm_size=64 * 10**6)),
    "memory": Row(compute=PLAIN._replace(memory=64 * 10**6)),
    "cpus": Row(compute=PLAIN._replace(cpus=0.5)),
    "arguments": Row(compute=PLAIN._replace(docker_arguments=("--cap-add", "SYS_PTRACE"))),
    "gpu": Row(gpu=tuple(GPU)),
    "hostile": Row(attempt=f"{HOSTILE}/a1", prefix=f"{HOSTILE}/env", share=f"{HOSTILE}/share", links=(HOSTILE,)),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_row(row: str) -> None:
    compare(f"{row}.txt", "\n".join(map(shlex.quote, ROWS[row].words())) + "\n")


@pytest.mark.parametrize("row", ["docker", "everything", "copied", "podman-rootfs"])
def test_what_a_plan_says(row: str) -> None:
    compare(f"{row}.json", json.dumps(ROWS[row].wish(), indent=2) + "\n")


BESIDE = {
    "beside": ([b"/shims", PREFIX.encode() + b"/bin"], {b"AZUREML_NATIVE_SHARE_DIRECTORY": b"/home/ada/share/iris/"}),
    "beside-plain": ([], {b"NAME": b"two words\nand a line \xff"}),
}


@pytest.mark.parametrize("row", BESIDE)
def test_a_command_beside_the_script(row: str) -> None:
    first, variables = BESIDE[row]
    places = {b"PATH": first, b"PYTHONPATH": [b"/site", b"/attempt/src"], b"LD_LIBRARY_PATH": []}
    wish = parse_container(ROWS["docker"].wish())
    found = argv.beside(wish, NAME, [b"ls", b"-l", b"\xff '"], b"/attempt/\xe9", variables, places)
    compare(f"{row}.txt", "\n".join(shlex.quote(os.fsdecode(word)) for word in found) + "\n")


def test_no_golden_without_a_row() -> None:
    plans = {"docker", "everything", "copied", "podman-rootfs"}
    expected = {f"{row}.txt" for row in (*ROWS, *BESIDE)} | {f"{row}.json" for row in plans}
    assert {path.name for path in GOLDEN.iterdir()} == expected


@pytest.mark.parametrize("row", ROWS)
def test_nothing_is_given_away_that_was_not_asked_for(row: str) -> None:
    """No privileges, no namespace of the host, no socket; not the image's own program; nothing is fetched."""
    asked = list(ROWS[row].compute.docker_arguments or ())
    words = [word for word in ROWS[row].words() if word not in asked]
    text = " ".join(words)
    for forbidden in ("--privileged", "--cap-add", "--pid", "--ipc", "--uts", "docker.sock", "--volumes-from", "--env"):
        assert forbidden not in text
    assert "--entrypoint" in words
    assert ("--rootfs" in words) or words[words.index("--pull") + 1] == "never"
    assert ("host" in words) == (ROWS[row].compute.network == "host")


@pytest.mark.parametrize("row", ROWS)
def test_a_container_is_known_by_its_run(row: str) -> None:
    words = ROWS[row].words()
    assert words[words.index("--name") + 1] == NAME
    assert words[words.index("--label") + 1] == f"holdfast.run={NAME}"


@pytest.mark.parametrize("path", ["/a", "/a b", "/a,b", '/"a"', '/a,"b"', "/a\nb", "/a=b,readonly", "/ü\udcff"])
@pytest.mark.parametrize("read_only", [True, False])
def test_engines_read_any_path_as_it_is(path: str, read_only: bool) -> None:
    """Both read a mount as one record of comma-separated values."""
    [fields] = csv.reader([argv.mount(path, f"{path}/there", read_only)], strict=True)
    assert fields == ["type=bind", f"source={path}", f"target={path}/there"] + ["readonly"] * read_only


@pytest.mark.parametrize(
    ("user", "root"),
    [
        ("root", True),
        ("0", True),
        ("0:0", True),
        ("root:video", True),
        ("000:0", True),
        ("1000:0", False),
        ("1000", False),
        ("", False),
    ],
)
def test_root_is_known(user: str, root: bool) -> None:
    assert argv.is_root(user) is root


@pytest.mark.parametrize(
    ("size", "text"),
    [(64 * 10**6, "64 MB"), (1_500_000_000, "1.5 GB"), (64 * 2**20, "67.1089 MB"), (2000, "2 KB"), (512, "512 bytes")],
)
def test_a_limit_is_told_as_a_person_would(size: int, text: str) -> None:
    wish = Row(compute=PLAIN._replace(memory=size)).wish()
    assert (wish["memory"], wish["memory_text"]) == (size, text)


def compare(name: str, found: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        golden.write_text(found, encoding="utf-8", errors="surrogateescape")
    assert found == golden.read_text(encoding="utf-8", errors="surrogateescape")


def test_name_of_a_container_has_run_and_attempt() -> None:
    assert argv.name_of("u", "a1") == "holdfast-u-a1"


@pytest.mark.parametrize(
    ("engine", "compute", "uid", "lacks"),
    [
        (DOCKER, PLAIN, 1000, True),
        (DOCKER, PLAIN, 0, False),
        (PODMAN, PLAIN, 1000, False),
        ({**DOCKER, "rootless": True}, PLAIN, 1000, False),
        (DOCKER, PLAIN._replace(container_user="nobody"), 1000, False),
        (DOCKER, PLAIN._replace(shared_volumes=False), 1000, False),
    ],
)
def test_user_without_a_name_is_one_of_docker(
    engine: dict[str, object], compute: ComputeTarget, uid: int, lacks: bool
) -> None:
    row = Row(engine, compute)
    assert argv.lacks_user(engine, parse_container(row.wish()), uid) is lacks


def test_list_of_users_is_mounted_in_the_place_of_the_images() -> None:
    places = argv.Places(ATTEMPT, RUNNER, None, None, [], (1000, 1001), False, users=f"{ATTEMPT}/inside/passwd")
    words = argv.words(DOCKER, parse_container(Row().wish()), places, NAME, [])
    assert f"type=bind,source={ATTEMPT}/inside/passwd,target=/etc/passwd,readonly" in words
    assert argv.users_text(1000, 1001, "ada").splitlines()[-1] == "ada:x:1000:1001::/tmp:/bin/sh"
