"""How much memory a command takes at most."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from conftest import HOLDFAST

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


class Cost(NamedTuple):
    code: int
    megabytes: float
    seconds: float


def cost_of(desk: Desk, out: Path, *words: str) -> Cost:
    """Run a command with its output into a file; what it cost it alone, without the runner that it started."""
    began = time.monotonic()
    with open(out, "wb") as target:
        process = subprocess.Popen([str(HOLDFAST), *words], cwd=desk.project, env=desk.env, stdout=target)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(process.returncode, used.ru_maxrss / 1024, time.monotonic() - began)
