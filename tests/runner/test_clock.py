"""A clock that is set while a run goes on changes what is shown, and nothing that is decided."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest
from runner_post import Post, post_fixture  # noqa: F401

from holdfast.store import history_record

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86400

# The wall clock as the runner sees it: the real one, plus the seconds that stand in a file.
WALL_CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    long offset = 0;
    int file = clock == CLOCK_REALTIME ? open(getenv("CLOCK_OFFSET"), O_RDONLY) : -1;
    if (file >= 0) {
        if (read(file, &offset, sizeof offset) == sizeof offset) now->tv_sec += offset;
        close(file);
    }
    return result;
}
"""


@pytest.mark.parametrize("jump", [2 * DAY_S, -2 * DAY_S], ids=["forward", "back"])
def test_a_clock_jump_ends_nothing_and_lengthens_nothing(post: Post, tmp_path: Path, jump: int) -> None:
    offset = tmp_path / "offset"
    offset.write_bytes(struct.pack("l", 0))
    post.python = _with_clock(post.python, tmp_path, offset)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = post.start(post.plan(("sh", "-c", f"echo up; cat {gate}"), timeout=3600.0, timeout_text="1h"))
    run.wait_for_log(b"up\n")
    offset.write_bytes(struct.pack("l", jump))
    gate.write_text("go")
    closed = run.wait()
    assert closed["outcome"] == "completed"
    started, exited = run.event("started"), run.event("exited")
    moved = (exited["wall_ns"] - started["wall_ns"]) / 1e9
    assert abs(moved - jump) < 60
    length = history_record.length_ns(started, exited)
    assert length is not None
    assert 0 < length < 60e9


def _with_clock(python: str, place: Path, offset: Path) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("NOT TESTED: there is no C compiler to build a clock with")
    source, library, shim = place / "clock.c", place / "clock.so", place / "python"
    source.write_text(WALL_CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    shim.write_text(f'#!/bin/sh\nexport LD_PRELOAD={library} CLOCK_OFFSET={offset}\nexec {python} "$@"\n')
    shim.chmod(0o755)
    return str(shim)
