"""Every version of Python that a target, an image or an old environment may have, as far as this machine has it too."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PYENV = Path.home() / ".pyenv" / "versions"
VERSIONS = ("2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
OLDEST, NEWEST = "3.6", "3.13"  # of a target


@functools.cache
def find_python(version: str) -> str | None:
    """An interpreter of this version: named in HOLDFAST_TEST_PYTHONS, of pyenv, or the machine's own."""
    candidates = os.environ.get("HOLDFAST_TEST_PYTHONS", "").split(os.pathsep)
    candidates += map(str, sorted(PYENV.glob(f"{version}.*/bin/python"), reverse=True))
    candidates.append(shutil.which(f"python{version}", path="/usr/bin:/usr/local/bin") or "")
    for candidate in filter(None, candidates):
        argv = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() == version:
            return candidate
    return None


def python_of(version: str) -> str:
    """The same for a test that cannot do without it."""
    program = find_python(version)
    if program is None:
        pytest.skip(f"NOT TESTED: there is no Python {version} here; name one in HOLDFAST_TEST_PYTHONS")
    return program
