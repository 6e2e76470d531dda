"""A conda package ``python``, made from the Python that runs the tests."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from lab.conda_package import File, Package

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT_OUT = {
    "EXTERNALLY-MANAGED",  # an installed environment is not the system's Python, and pip may write to it
    "__pycache__",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
}
# What identifies the package's content, without reading it: the version holds the build's date.
IDENTITY = f"{sys.version} {sys.base_prefix}"

PREFIX = Path(sys.base_prefix)
NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"


def machine_python() -> Package:
    """The interpreter and its standard library, without tests; it needs this machine's system libraries."""
    files = {
        f"bin/{NAME}": File(_finding_its_library((PREFIX / "bin" / NAME).read_bytes()), 0o755),
        "bin/python": File(link_to=NAME),
        "bin/python3": File(link_to=NAME),
    }
    for path in (*sorted((PREFIX / "lib").glob("libpython3*.so*")), *_standard_library()):
        files[path.relative_to(PREFIX).as_posix()] = _file(path)
    return Package("python", platform.python_version(), files, subdir="linux-64")


def _finding_its_library(program: bytes) -> bytes:
    """Make it look for libpython beside itself; in as many bytes as before, for nothing in an ELF file may move."""
    before = f"{PREFIX}/lib".encode() + b"\0"
    after = b"$ORIGIN/../lib".ljust(len(before), b"\0")
    if before in program and len(after) > len(before):
        raise ValueError(f"{PREFIX}/lib is too short to be rewritten: run the tests with a Python in a longer path")
    return program.replace(before, after)


def _standard_library() -> Iterator[Path]:
    for folder, inner, names in os.walk(sysconfig.get_path("stdlib")):
        inner[:] = sorted(name for name in inner if name not in LEFT_OUT and not name.startswith("config-"))
        yield from (Path(folder, name) for name in sorted(names) if name not in LEFT_OUT)


def _file(path: Path) -> File:
    if path.is_symlink() and not os.path.isabs(path.readlink()):
        return File(link_to=os.fspath(path.readlink()))
    holds_prefix = path.name.startswith("_sysconfigdata")
    return File(path.read_bytes(), path.stat().st_mode & 0o777, placeholder=str(PREFIX) if holds_prefix else "")
