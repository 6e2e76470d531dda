"""Provides the library names of the old OpenMPI that CNTK's last wheels need, from a current OpenMPI."""

from __future__ import annotations

import os
from typing import Any

from .requirement_lines import name_of

NEEDS_IT = {"cntk", "cntk-gpu"}
OLD_NAMES = {"libmpi.so.12": "libmpi.so.40", "libmpi_cxx.so.1": "libmpi_cxx.so.40"}
FOLDER = os.path.join("lib", "holdfast-compat")
PLACES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib64/openmpi/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu/openmpi/lib",
)


def provide(lock: dict[str, Any], beside: str, prefix: str) -> list[str]:
    """Link the old names where they are needed; the folders to put on LD_LIBRARY_PATH."""
    names = {name_of(line) for line in lock["pip"]} | {package["name"] for package in lock["conda"]}
    links = {old: path for old, new in OLD_NAMES.items() if (path := _find(new))}
    if not names & NEEDS_IT or not links:
        return []
    os.makedirs(os.path.join(beside, FOLDER))
    for old, path in links.items():
        os.symlink(path, os.path.join(beside, FOLDER, old))
    return [os.path.join(prefix, FOLDER)]


def _find(library: str) -> str:
    places = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    paths = (os.path.join(folder, library) for folder in (*places, *PLACES))
    return next((path for path in paths if os.path.exists(path)), "")
