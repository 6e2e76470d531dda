"""The machine's Java, started with options for programs that run for seconds; it halves the processor time of Spark."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab import shelf
from sshlab import Unavailable

if TYPE_CHECKING:
    from sshlab import Host

ROOT = Path(__file__).resolve().parents[2]
# Code that runs once is not worth the second compiler, nor a collector with threads of its own.
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
THERE = "/opt/quick-java"  # on machines of the SSH lab


def require() -> None:
    """Skip the test where there is no Java; in continuous integration that is an error."""
    try:
        if shutil.which("java") is None:
            raise Unavailable("there is no java (apt-get install default-jre-headless)")
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


def home() -> Path:
    """A folder for JAVA_HOME: links to the machine's Java, and a program that starts it with ``OPTIONS``."""
    program = shutil.which("java")
    assert program is not None
    real = Path(os.path.realpath(program)).parents[1]

    def make(folder: Path) -> None:
        for entry in real.iterdir():
            if entry.name != "bin":
                (folder / entry.name).symlink_to(entry)
        (folder / "bin").mkdir()
        java = folder / "bin" / "java"
        java.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real / "bin" / "java"))} {shlex.join(OPTIONS)} "$@"\n')
        java.chmod(0o755)

    return shelf.kept(ROOT / ".tools", "quick-java", f"{real} {OPTIONS}", make)


def put_on_path(host: Host) -> None:
    """Of every user of a machine that has ``home()`` at ``THERE``."""
    host.run("ln", "-sf", f"{THERE}/bin/java", "/usr/local/bin/java")
