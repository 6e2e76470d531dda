"""The Python files of the project as one zip, from which Python workers import them."""

import os
import zipfile

MYPY = False
if MYPY:
    from typing import Iterator

NAME = "project.zip"


def write(folder: "str", work: "str") -> "str":
    """The archive's path, in ``folder``."""
    path = os.path.join(folder, NAME)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for full in files(work):
            archive.write(full, os.path.relpath(full, work))
    return path


def files(work: "str") -> "Iterator[str]":
    """Without hidden folders and outputs."""
    for folder, names, files_here in os.walk(work):
        names[:] = [name for name in names if name[0] != "." and (folder, name) != (work, "outputs")]
        for name in files_here:
            if name.endswith(".py"):
                yield os.path.join(folder, name)
