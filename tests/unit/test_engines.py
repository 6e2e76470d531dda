"""What engines say, word for word as their versions print it, and what is made of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from holdfast.runner.container import engines

if TYPE_CHECKING:
    from pathlib import Path

SOCKET = "unix:///var/run/docker.sock"
DAEMON_DOWN = {
    "docker 20 and 28": f"Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?",
    "docker 20, run": f"docker: Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?.\n"
    "See 'docker run --help'.",
    "docker 28, run": f"docker: Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?\n\n"
    "Run 'docker run --help' for more information",
    "docker 29": f"failed to connect to the docker API at {SOCKET}; check if the path is correct and if the daemon is "
    "running: dial unix /var/run/docker.sock: connect: no such file or directory",
    "podman 4 --remote": "Cannot connect to Podman. Please verify your connection to the Linux system using `podman "
    "system connection list`, or try `podman machine init` and `podman machine start`\nError: unable to connect to "
    'Podman socket: Get "http://d/v4.3.1/libpod/_ping": dial unix /run/p.sock: connect: no such file or directory',
}
BROKEN_OFF = (
    'error during connect: Post "http://%2Fvar%2Frun%2Fdocker.sock/v1.41/containers/x/wait": unexpected EOF',
    'time="2024-05-01T10:00:00Z" level=error msg="error waiting for container: unexpected EOF"',
    "Error response from daemon: dial unix /run/containerd/containerd.sock: connect: connection refused",
)
ABSENT = {
    "docker 20, inspect": "Error: No such container: x",
    "docker 28, inspect": "Error response from daemon: No such container: x",
    "docker, inspect of anything": "Error: No such object: x",
    "docker, kill": "Error response from daemon: Cannot kill container: x: No such container: x",
    "docker 20, image": "Error: No such image: x:1",
    "docker 28, image": "Error response from daemon: no such image: x:1: No such image: x:1",
    "podman 4, inspect": "Error: inspecting object: no such container x",
    "podman 5, inspect": 'Error: no such container "x"',
    "podman, rm": 'Error: no container with name or ID "x" found: no such container',
    "podman 5, rm": 'Error: no container with ID or name "x" found: no such container',
    "podman 4, image": "Error: inspecting object: x:1: image not known",
    "podman 5, image": "Error: x:1: image not known",
}
PERMISSION = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Delete "
    '"http://%2Fvar%2Frun%2Fdocker.sock/v1.50/containers/x?force=1": dial unix /var/run/docker.sock: connect: '
    "permission denied"
)
PRIVATE = (
    "Error response from daemon: pull access denied for x, repository does not exist or may require 'docker login'"
    ": denied: requested access to the resource is denied"
)
UNAUTHORIZED = (
    "Error: initializing source docker://x.example/y:1: reading manifest 1 in x.example/y: unauthorized: access to "
    "the requested resource is not authorized"
)
NO_NETWORK = (
    'Error response from daemon: Get "https://x.invalid/v2/": dial tcp: lookup x.invalid on 10.0.0.1:53: dial udp '
    "10.0.0.1:53: connect: network is unreachable"
)
NO_HOST = (
    "Trying to pull x.invalid/x:1...\nError: initializing source docker://x.invalid/x:1: pinging container registry"
    ' x.invalid: Get "https://x.invalid/v2/": dial tcp: lookup x.invalid on 10.0.0.1:53: no such host'
)
NO_MANIFEST = "Error: initializing source docker://x.example/y:2: reading manifest 2 in x.example/y: manifest unknown"
# What is hinted at, by a word of the hint.
COMPLAINTS = {
    "a socket that is not ours": (PERMISSION, "usermod"),
    "docker 20, private image": (PRIVATE, "docker login"),
    "podman 4, private image": (UNAUTHORIZED, "docker login"),
    "docker 28, no way to the registry": (NO_NETWORK, "image import"),
    "podman 4, no way to the registry": (NO_HOST, "image import"),
    "docker 28, full": ("failed to register layer: write /usr/lib/x: no space left on device", "experiment clean"),
    "podman 5, no such tag": (NO_MANIFEST, "no image with this name"),
    "docker 28, no such tag": (
        "manifest for x:2 not found: manifest unknown: manifest unknown",
        "no image with this name",
    ),
}


@pytest.mark.parametrize("said", DAEMON_DOWN.values(), ids=list(DAEMON_DOWN))
def test_engine_that_is_down_says_nothing_about_its_containers(said: str) -> None:
    trouble = engines.meaning("/usr/bin/docker", said)
    assert trouble.code == "engine-failed"
    assert "podman" in trouble.hint


@pytest.mark.parametrize("said", BROKEN_OFF)
def test_engine_that_breaks_off_says_nothing_about_its_containers(said: str) -> None:
    assert engines.meaning("/usr/bin/docker", said).code == "engine-failed"


@pytest.mark.parametrize("said", ABSENT.values(), ids=list(ABSENT))
def test_missing_container_or_image_has_a_code(said: str) -> None:
    assert engines.meaning("/usr/bin/podman", said).code == engines.NOT_FOUND


@pytest.mark.parametrize(("said", "word"), COMPLAINTS.values(), ids=list(COMPLAINTS))
def test_a_complaint_comes_with_what_to_do(said: str, word: str) -> None:
    trouble = engines.meaning("/usr/local/bin/docker", said)
    assert word in trouble.hint
    assert said.splitlines()[-1] in trouble.answer
    assert trouble.code == "engine-failed"


def test_a_program_that_is_missing_in_the_image_is_no_missing_container() -> None:
    said = (
        'runc create failed: unable to start container process: exec: "/x": stat /x: no such file or directory: unknown'
    )
    assert engines.meaning("docker", said).code == "engine-failed"


@pytest.mark.parametrize(
    "said",
    [
        'runc create failed: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown',
        "Error: crun: executable file `/bin/sh` not found in $PATH: No such file or directory",
    ],
)
def test_image_without_a_shell_has_a_code(said: str) -> None:
    assert engines.meaning("docker", said).code == "no-shell"


def test_silence_is_told() -> None:
    assert engines.meaning("/usr/bin/docker", "").answer == "no message"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            {"ServerVersion": "20.10.24", "SecurityOptions": ["name=seccomp"], "Runtimes": {"runc": {}, "nvidia": {}}},
            {"name": "docker", "version": "20.10.24", "rootless": False, "runtimes": ["nvidia", "runc"], "cdi": []},
        ),
        (
            {"ServerVersion": "28.2.2", "SecurityOptions": ["name=rootless"], "CDISpecDirs": ["/etc/cdi"]},
            {"name": "docker", "version": "28.2.2", "rootless": True, "runtimes": [], "cdi": ["/etc/cdi"]},
        ),
        (
            {"host": {"security": {"rootless": True}}, "version": {"Version": "5.4.0"}},
            {"name": "podman", "version": "5.4.0", "rootless": True, "runtimes": [], "cdi": []},
        ),
    ],
)
def test_an_engine_is_known_by_what_it_says_and_not_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, object], found: dict[str, object]
) -> None:
    install(tmp_path, monkeypatch, json.dumps(said))
    known = engines.find(bytes(tmp_path), "docker")
    assert {name: known[name] for name in found} == found
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    again = engines.find(bytes(tmp_path), None)
    assert {name: again[name] for name in known} == known, "it was asked once more"


def test_an_old_docker_without_its_daemon_reports_success_and_is_not_taken_for_podman(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"ServerErrors": [DAEMON_DOWN["docker 20 and 28"]], "ClientInfo": {"Debug": False}}
    install(tmp_path, monkeypatch, json.dumps(said))
    with pytest.raises(engines.EngineTrouble, match="Is the docker daemon running"):
        engines.find(bytes(tmp_path), "docker")
    assert not (tmp_path / "cache").exists()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """A program ``docker`` that says this whatever it is asked, and nothing else in the path."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
