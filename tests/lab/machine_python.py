"""Conda packages ``python``, made from the Python that runs the tests, or from another one of this machine."""

from __future__ import annotations

import importlib.util
import os
import platform
import py_compile
import re
import subprocess
import sys
import tempfile
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
# Debian's Python has site-packages in virtual environments only; that of a conda package always has it.
DEBIAN_IS_VENV = b'sys.base_prefix != sys.prefix or hasattr(sys, "real_prefix")'
# What identifies the package's content, without reading it: the version holds the build's date.
IDENTITY = f"{sys.version} {sys.base_prefix}"

OLDEST = Path.home() / ".pyenv/versions/3.6.15"


def machine_python() -> Package:
    """The interpreter and its standard library, without tests; it needs this machine's system libraries.

    Its bytecode is in the package, as it is in published ones.
    """
    package = _python(Path(sys.base_prefix), platform.python_version())
    modules = {name: file for name, file in package.files.items() if name.endswith(".py") and not file.placeholder}
    return package._replace(files={**package.files, **_bytecode(modules)})


def oldest_python() -> Package:
    """The same of a Python 3.6, which the fixes of old projects ask for."""
    told = subprocess.run([OLDEST / "bin/python", "--version"], check=True, capture_output=True, text=True).stdout
    return _python(OLDEST, told.split()[1])


def _python(prefix: Path, version: str) -> Package:
    name = "python" + ".".join(re.findall(r"\d+", version)[:2])
    files = {
        f"bin/{name}": File(_finding_its_library((prefix / "bin" / name).read_bytes(), prefix), 0o755),
        "bin/python": File(link_to=name),
        "bin/python3": File(link_to=name),
    }
    for path in (*sorted((prefix / "lib").glob("libpython3*.so*")), *_standard_library(prefix / "lib" / name)):
        files[path.relative_to(prefix).as_posix()] = _file(path, prefix)
    return Package("python", version, files, subdir="linux-64")


def _finding_its_library(program: bytes, prefix: Path) -> bytes:
    """Make it look for libpython beside itself; in as many bytes as before, for nothing in an ELF file may move."""
    before = f"{prefix}/lib".encode() + b"\0"
    after = b"$ORIGIN/../lib".ljust(len(before), b"\0")
    if before in program and len(after) > len(before):
        raise ValueError(f"{prefix}/lib is too short to be rewritten: run the tests with a Python in a longer path")
    return program.replace(before, after).replace(b"dist-packages", b"site-packages")  # its frozen module site


def _standard_library(library: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(library):
        inner[:] = sorted(name for name in inner if name not in LEFT_OUT and not name.startswith("config-"))
        yield from (Path(folder, name) for name in sorted(names) if name not in LEFT_OUT)


def _file(path: Path, prefix: Path) -> File:
    if path.is_symlink() and not os.path.isabs(path.readlink()):
        return File(link_to=os.fspath(path.readlink()))
    holds_prefix = path.name.startswith("_sysconfigdata")
    content = path.read_bytes().replace(DEBIAN_IS_VENV, b"True")
    return File(content, path.stat().st_mode & 0o777, placeholder=str(prefix) if holds_prefix else "")


def _bytecode(modules: dict[str, File]) -> dict[str, File]:
    """Unchecked, for an archive of ours keeps no times."""
    compiled = {}
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "source"), Path(scratch, "target")
        for name, file in modules.items():
            source.write_bytes(file.data)
            py_compile.compile(str(source), str(target), name, doraise=True, invalidation_mode=unchecked)
            compiled[importlib.util.cache_from_source(name)] = File(target.read_bytes())
    return compiled
