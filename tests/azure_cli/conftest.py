"""The Azure CLI, installed once into ``.tools``, with the extension built from this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import Result
from ssh.conftest import ada, gpu1, lab, laptop, ssh_lab  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from typing import Any

    from conftest import Desk

REPOSITORY = Path(__file__).parents[2]
AZ = REPOSITORY / ".tools" / "azure-cli" / "bin" / "az"
VERSION = "azure-cli==2.91.0"
PACKAGE = REPOSITORY / "packages" / "holdfast-az"


class AzureCli:
    """``az`` with settings and extensions of its own; ``env`` is what it needs of variables."""

    def __init__(self, place: Path) -> None:
        self.extensions = place / "extensions"
        self.env = {
            "AZURE_CONFIG_DIR": str(place / "config"),
            "AZURE_EXTENSION_DIR": str(self.extensions),
            "AZURE_CORE_COLLECT_TELEMETRY": "false",
        }

    def __call__(self, desk: Desk, *argv: str, **more: Any) -> Result:
        env = {**self.env, **more.pop("env", {})}
        return desk.holdfast(*argv, command=str(AZ), env=env, limit=240, **more)


def build(into: Path, source: Path = PACKAGE) -> Path:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = into.glob("*.whl")
    return wheel


def _install() -> None:
    """Compiled, because the first command of a new configuration folder loads every module of the Azure CLI."""
    if AZ.exists():
        return
    uv = Path(sys.executable).with_name("uv")
    folder = AZ.parents[1]
    subprocess.run([uv, "venv", "-q", "--clear", "--seed", folder], check=True, timeout=120)
    argv: list[str | Path] = [
        uv,
        "pip",
        "install",
        "-q",
        "--compile-bytecode",
        "--python",
        folder / "bin" / "python",
        VERSION,
    ]
    subprocess.run(argv, check=True, timeout=600)


@pytest.fixture(scope="session")
def az(tmp_path_factory: pytest.TempPathFactory) -> AzureCli:
    _install()
    place = tmp_path_factory.mktemp("azure")
    cli = AzureCli(place)
    argv = [str(AZ), "extension", "add", "--yes", "--source", str(build(place / "wheel"))]
    subprocess.run(argv, env={**os.environ, **cli.env}, check=True, capture_output=True, timeout=240)
    return cli
