"""Provides the library names of the old OpenMPI that CNTK's last wheels need, from a current OpenMPI.

The links are made for every place, whether a library is there or not: the environment may run in an image, and OpenMPI
may be installed after it. The loader passes over a link that leads nowhere.
"""

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
    if not names & NEEDS_IT:
        return []
    own = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if os.path.isabs(folder)]
    folders = []
    for number, library_folder in enumerate(dict.fromkeys((*own, *PLACES))):
        folder = os.path.join(FOLDER, str(number))
        os.makedirs(os.path.join(beside, folder))
        for old, new in OLD_NAMES.items():
            os.symlink(os.path.join(library_folder, new), os.path.join(beside, folder, old))
        folders.append(os.path.join(prefix, folder))
    return folders
