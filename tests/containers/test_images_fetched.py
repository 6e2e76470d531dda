"""An image that has to be fetched: from a registry that breaks off, to a full disk, for a client that dies."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import eventually
from containers.conftest import target
from enginelab import Docker, base_rootfs
from sshlab import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar"
OUTSIDE = "10.0.2.2"  # this machine's loopback, as the engine's namespace calls it


class Registry:
    """One image, ``small:1``, on a port of this machine's loopback.

    ``halves``: so often the layer breaks off in the middle; ``held``: in the middle it waits for ``go``.
    """

    def __init__(self, layer: Path) -> None:
        self.halves = 0
        self.held = False
        self.in_the_middle = threading.Event()
        self.go = threading.Event()
        self._layer = layer
        digest = f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"
        content = {"type": "layers", "diff_ids": [digest]}
        config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": content})
        about = {"mediaType": CONFIG, "size": len(config), "digest": _digest(config)}
        layers = [{"mediaType": LAYER, "size": layer.stat().st_size, "digest": digest}]
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": about, "layers": layers})
        self.config = config
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Answer,), {"registry": self}))
        self.image = f"{OUTSIDE}:{self._server.server_port}/small:1"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def send_layer(self, answer: BaseHTTPRequestHandler) -> None:
        size = self._layer.stat().st_size
        with self._layer.open("rb") as source:
            answer.wfile.write(source.read(size // 2))
            self.in_the_middle.set()
            if self.held:
                self.go.wait()
            if self.halves:
                self.halves -= 1
                answer.close_connection = True
                return
            while block := source.read(1 << 20):
                answer.wfile.write(block)


class _Answer(BaseHTTPRequestHandler):
    registry: Registry

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        registry, name = self.registry, self.path.rpartition("/")[2]
        layer = json.loads(registry.manifest)["layers"][0]
        by_name = {_digest(text): text for text in (registry.manifest, registry.config)}
        text = registry.manifest if name == "1" else by_name.get(name, "{}")
        self.send_response(200)
        self.send_header("Content-Type", MANIFEST if "/manifests/" in self.path else "application/octet-stream")
        self.send_header("Docker-Content-Digest", _digest(text))
        self.send_header("Content-Length", str(layer["size"] if name == layer["digest"] else len(text)))
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            if name == layer["digest"]:
                registry.send_layer(self)
            else:
                self.wfile.write(text.encode())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """The output is not read."""


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        rootfs = base_rootfs()
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")
    path = tmp_path_factory.mktemp("layer") / "layer.tar"
    spared = [
        f"--exclude=./{place}" for place in ("usr/share", "usr/lib/python3/dist-packages", "usr/bin/perl*", "var")
    ]
    subprocess.run(["tar", "-C", str(rootfs), *spared, "-cf", str(path), "."], check=True)
    return path


@pytest.fixture
def registry(layer: Path) -> Iterator[Registry]:
    registry = Registry(layer)
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def reaching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """An engine without any image that reaches registries of this machine, and tries only once."""
    more: dict[str, Any] = {"insecure-registries": [f"{OUTSIDE}/32"], "max-download-attempts": 1}
    try:
        with Docker(tmp_path_factory.mktemp("reaching"), internet=True, empty=True, **more) as docker:
            yield docker
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def seat(desk: Desk, reaching: Docker, registry: Registry) -> Iterator[Desk]:
    desk.env.update(reaching.environment)
    target(desk, "box", f"baseDockerImage: {registry.image}", "engine: docker")
    desk.script("print('ran')")
    yield desk
    assert reaching.run("ps", "--all", "--quiet").stdout == ""
    reaching.run("rmi", "--force", registry.image, check=False)


def images(docker: Docker) -> list[str]:
    return docker.run("images", "--all", "--quiet").stdout.split()


def test_an_image_that_comes_whole_is_kept_with_its_digest(seat: Desk, reaching: Docker, registry: Registry) -> None:
    result = seat.holdfast("submit", "-c", "box", "train.py")
    assert "ran\n" in result.text, result
    container = next(event for event in seat.events() if event["type"] == "container")
    assert container["digest"] == f"{registry.image.removesuffix(':1')}@{_digest(registry.manifest)}"
    registry.close()
    assert "ran\n" in seat.holdfast("submit", "-c", "box", "train.py").text, "the registry is gone, the image is here"
    eventually(lambda: reaching.run("ps", "--all", "--quiet").stdout == "", 60)


def test_a_registry_that_breaks_off_leaves_no_half_image(seat: Desk, reaching: Docker, registry: Registry) -> None:
    registry.halves = 1
    result = seat.holdfast("submit", "-c", "box", "train.py")
    assert result.code == 65, result
    assert f"the image {registry.image} could not be pulled" in result.err
    assert images(reaching) == []
    assert seat.holdfast("history", "list", "-o", "json").json == []
    assert "ran\n" in seat.holdfast("submit", "-c", "box", "train.py").text
    eventually(lambda: reaching.run("ps", "--all", "--quiet").stdout == "", 60)


def test_a_client_that_is_killed_while_an_image_comes(seat: Desk, reaching: Docker, registry: Registry) -> None:
    registry.held = True
    process = seat.start("submit", "-c", "box", "train.py")
    assert registry.in_the_middle.wait(120)
    assert images(reaching) == []
    process.kill()
    process.communicate()
    assert seat.holdfast("history", "list", "-o", "json").json == []
    registry.held = False
    registry.go.set()
    assert "ran\n" in seat.holdfast("submit", "-c", "box", "train.py").text
    assert len(images(reaching)) == 1
    eventually(lambda: reaching.run("ps", "--all", "--quiet").stdout == "", 60)


def test_a_full_disk_of_the_engine_is_told(seat: Desk, reaching: Docker, registry: Registry) -> None:
    pid = reaching.files("/run/docker.pid").read_text().strip()
    place = reaching.files("/var/lib/docker")
    used = int(subprocess.run(["du", "-sk", str(place)], capture_output=True, check=True).stdout.split()[0])
    remount = ["nsenter", "--target", pid, "--mount", "mount", "-o"]
    subprocess.run([*remount, f"remount,size={used + 40_000}k", "/var/lib/docker"], check=True)
    try:
        result = seat.holdfast("submit", "-c", "box", "train.py")
        assert result.code == 65, result
        assert "no space left on device" in result.err
        assert "its disk is full: holdfast experiment clean" in result.err
        assert images(reaching) == []
    finally:
        subprocess.run([*remount, "remount,size=4g", "/var/lib/docker"], check=True)
    assert "ran\n" in seat.holdfast("submit", "-c", "box", "train.py").text
    eventually(lambda: reaching.run("ps", "--all", "--quiet").stdout == "", 60)
