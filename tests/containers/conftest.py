"""A person at a desk with a container engine, or with a machine that has one."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from enginelab import Docker, Podman
from ssh.conftest import ada, gpu1, lab, laptop, ssh_lab  # noqa: F401 - fixtures
from sshlab import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Desk


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
