"""Interpreters with the libraries that scripts log with, and what a run gives to a script, for tests and benches."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.engine.connection import bundle
from lab import shelf

if TYPE_CHECKING:
    from collections.abc import Sequence

# A name for the folder in .tools, then the packages.
MLFLOW = ("mlflow-written", "mlflow==3.17.2")
WANDB = ("wandb", "wandb==0.31.0", "numpy", "pillow")
TENSORBOARDX = ("tensorboardx", "tensorboardX==2.6.5", "tensorboard==2.21.0")
TORCH = ("torch-loggers", "torch==2.13.0", "tensorboard==2.21.0", "lightning", "transformers", "accelerate")
SPARK = ("pyspark", "pyspark[connect]==4.3.0", "numpy", "pandas<3")
KERAS = ("keras-loggers", "tensorflow-cpu==2.21.0", "tensorboard==2.21.0")
IMAGE_PACKAGES = "/usr/local/lib/python3.11/dist-packages"  # where the Python of Debian 12 looks for packages


def interpreter(root: Path, library: Sequence[str]) -> Path:
    return shelf.interpreter(root, *library)


def image_packages(root: Path, library: Sequence[str]) -> Path:
    """A folder with these packages for the Python of the image in tests/enginelab.py; see ``IMAGE_PACKAGES``."""
    name, *packages = library

    def make(place: Path) -> None:
        target = ["--target", str(place / "packages"), "--python-version", "3.11", "--only-binary", ":all:"]
        command = [str(Path(sys.executable).with_name("uv")), "pip", "install", "-q", *target, *packages]
        subprocess.run(command, check=True, capture_output=True)

    try:
        return shelf.kept(root / ".tools", f"{name}-image", " ".join(packages), make) / "packages"
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT TESTED: {' '.join(packages)} could not be installed: {error.stderr.decode()[-300:]}")


def make_site(folder: Path) -> Path:
    """The folder that a run puts on the path of its script, from the present sources."""
    for name, path in bundle._sources().items():
        if name.startswith("site/"):
            target = folder / name[len("site/") :]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return folder


def run_variables(folder: Path, site: Path) -> dict[str, str]:
    """What a script needs to find in its environment for its values to be recorded in ``folder``."""
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "outputs").mkdir(exist_ok=True)
    return {
        "PYTHONPATH": str(site),
        "HOLDFAST_METRICS_DIR": str(folder / "metrics"),
        "HOLDFAST_OUTPUTS": str(folder / "outputs"),
    }
