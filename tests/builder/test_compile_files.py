"""Compiled modules are complete or not there."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from holdfast.builder.bytecode import COMPILER

if TYPE_CHECKING:
    from pathlib import Path


def test_compiled_module_beyond_the_file_size_limit_is_removed_and_the_limit_is_told(tmp_path: Path) -> None:
    source, bytecode, jobs = tmp_path / "big.py", tmp_path / "big.pyc", tmp_path / "jobs"
    source.write_text("".join(f"a{number} = {number}\n" for number in range(10_000)))
    record = f"{source}\0{bytecode}\0big.py\0".encode()
    jobs.write_bytes(record)
    argv = [sys.executable, "-I", "-S", COMPILER, str(jobs), str(len(record)), "1"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(argv, preexec_fn=limit, capture_output=True, check=False)
    assert (done.returncode, bytecode.exists()) == (errno.EFBIG, False), done
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 0
    assert bytecode.stat().st_size > 100_000
