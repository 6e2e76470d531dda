"""What is costly to make is made once per content and kept, also when several test processes ask at the same time."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent


def kept(folder: Path, name: str, depends_on: str, make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` filled, now or earlier, from the same sources of the lab and the same ``depends_on``."""
    finished = folder / f"{name}-{_sources_digest(depends_on)}"
    if finished.exists():
        return finished
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            beside = folder / f"{name}.building"
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            make(beside)
            beside.rename(finished)
    return finished


def _sources_digest(depends_on: str) -> str:
    digest = hashlib.sha256(depends_on.encode())
    for path in sorted(HERE.rglob("*")):
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith("test_"):
            digest.update(f"\0{path.relative_to(HERE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def interpreter(root: Path, name: str, *packages: str) -> Path:
    """A Python with these packages, made once; the test that needs it is skipped, loudly, where they cannot be had."""
    try:
        place = kept(root / ".tools", name, " ".join(packages), lambda place: _install(place, packages))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"NOT TESTED: {' '.join(packages)} could not be installed: {error.stderr.decode()[-300:]}")
    return place / "venv" / "bin" / "python"


def _install(place: Path, packages: tuple[str, ...]) -> None:
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "-q", place / "venv"], check=True, capture_output=True)
    python = place / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], check=True, capture_output=True)
