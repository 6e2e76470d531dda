"""The Dockerfile builds on a base image that is here, and the image's command submits a script."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from enginelab import IMAGE, Docker
from sshlab import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Docker]:
    try:
        with Docker(tmp_path, internet=True) as engine:
            yield engine
    except Unavailable as why:
        pytest.skip(str(why))


def test_image_of_the_dockerfile_submits_a_script(docker: Docker, tmp_path: Path) -> None:
    source = tmp_path / "source"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    docker.run("build", "-q", "--build-arg", f"BASE={IMAGE}", "-t", "holdfast", str(source))
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("import holdfast\nholdfast.log('loss', 0.5)\nprint('trained')\n")
    run = ("run", "--rm", "-v", f"{project}:/work", "-v", f"{tmp_path / 'store'}:/root/.holdfast", "holdfast")
    assert "trained" in docker.run(*run, "submit", "-c", "local", "train.py").stdout
    [listed] = json.loads(docker.run(*run, "history", "list", "-o", "json").stdout)
    assert (listed["status"], listed["loss"]) == ("Completed", 0.5)
    assert docker.run("run", "--rm", "--entrypoint", "ssh", "holdfast", "-V").stderr.startswith("OpenSSH")
