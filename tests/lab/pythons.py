"""Every version of Python that an image or an old environment may have, as far as this machine has it too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

PYENV = Path.home() / ".pyenv" / "versions"
VERSIONS = ("2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13")


def program_of(version: str) -> str:
    found = sorted(PYENV.glob(f"{version}.*/bin/python"))
    program = str(found[-1]) if found else shutil.which(f"python{version}", path="/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip(f"NOT TESTED: there is no Python {version} here")
    return program
