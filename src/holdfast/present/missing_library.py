"""Explains a shared library that the loader did not find: the system package that has it."""

from __future__ import annotations

import re

from holdfast import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run

_COMPLAINT = re.compile(rb"(lib[\w+.-]{1,100}\.so(?:\.\d+)*): cannot open shared object file")
# The beginning of a library's name, what needs it, and packages of Debian and Ubuntu that have it.
_PACKAGES = (
    ("libmpi", "CNTK needs OpenMPI", "libopenmpi3 openmpi-bin"),
    ("libGL.so", "OpenCV with windows needs OpenGL", "libgl1"),
    ("libgthread", "OpenCV with windows needs GLib", "libglib2.0-0"),
    ("libgomp", "this package needs the OpenMP library of GCC", "libgomp1"),
)


def explain(run: Run, last: bytes) -> str:
    """``last`` are the last lines of the log of a run that failed; empty where no known library was missing."""
    missing = [name.decode() for name in _COMPLAINT.findall(last)]
    for name in reversed(missing):
        for beginning, reason, packages in _PACKAGES:
            if name.startswith(beginning):
                return f"{reason}, and there is no {name}\n  {_advice(run, packages)}"
    return ""


def _advice(run: Run, packages: str) -> str:
    target = str(run.request.get("target") or kinds.DEFAULT)
    if not kinds.of(str(run.request.get("kind") or kinds.DEFAULT)).in_container:
        return f"on Debian and Ubuntu, on {target}: apt-get install {packages}"
    return (
        f"write a Dockerfile with RUN apt-get update && apt-get install -y {packages}, and dockerfile: with its path\n"
        f"  in aml_config/{target}.compute"
    )
