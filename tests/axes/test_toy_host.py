"""The contract of hosts, kept by one from outside the package."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from axes.toys import NamespaceHost
from contract.test_hosts import *  # noqa: F403
from contract.test_hosts import Place, write_program
from holdfast.model import Login

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture  # type: ignore[no-redef]
def place(tmp_path: Path) -> Place:
    done = subprocess.run(["unshare", "--uts", "hostname", "toy"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: no namespaces here: {done.stderr}")
    host = NamespaceHost(Login("toy", str(tmp_path), "toy"))
    return Place(host, lambda name, text: write_program(tmp_path / name, text))
