"""Two ways to die: at a moment drawn by chance, or at one exact system call, by strace."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from conftest import HOLDFAST, Result

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from faults.stage import Stage

# Every call that changes the disk, or writes output.
CALLS = (
    "rename,renameat,renameat2,fsync,fdatasync,syncfs,write,pwrite64,writev,unlink,unlinkat,rmdir,mkdir,mkdirat,link,"
    "linkat,symlink,symlinkat,ftruncate"
)


class Point(NamedTuple):
    """The ``number``-th of a system call, and the file it named when the command was watched."""

    call: str
    number: int
    path: str


class Death(NamedTuple):
    """What a command said until it died, or survived (then ``result.code`` is not -9), and where that was."""

    result: Result
    where: str

    @property
    def killed(self) -> bool:
        return self.result.code == -signal.SIGKILL


def boundaries(trace: Path) -> list[Point]:
    """Every point at which what strace watched could have been killed."""
    seen: Counter[str] = Counter()
    points = []
    for line in trace.read_text(errors="replace").splitlines():
        found = re.match(r"(\w+)\((.*)", line)
        if found:
            call = found[1]
            seen[call] += 1
            path = re.search(r'[<"](/[^">]*)[">]', found[2])
            points.append(Point(call, seen[call], path[1] if path else "a pipe"))
    return points


def watched(stage: Stage, words: tuple[str, ...]) -> list[Point]:
    """Let a command run through and note where it could have been killed."""
    trace = stage.place / "trace"
    result = stage.heard(finish(_start(stage, [*strace(trace), str(HOLDFAST), *words])))
    assert result.code in (0, 1), result
    return boundaries(trace)


def kill_at(stage: Stage, words: tuple[str, ...], point: Point) -> Death:
    """Only the command itself is traced: its conversation with the runner and the runner are other processes."""
    trace = stage.place / "trace"
    result = stage.heard(finish(_start(stage, [*strace(trace, point), str(HOLDFAST), *words])))
    return Death(result, f"{point.call} {point.number} ({_last_path(trace) or point.path})")


def kill_in_time(stage: Stage, words: tuple[str, ...], rng: random.Random) -> Death:
    """Between its first own system call and 200 ms after the id, where it prints one."""
    process = _start(stage, [str(HOLDFAST), *words])
    after_a_line = (("first line", 0.2), ("first line", 0.02)) if words[0] in ("submit", "logs") else ()
    begin, limit = rng.choice((("start", 0.08), *after_a_line))
    said = b""
    if begin == "first line":
        assert process.stdout is not None
        said = process.stdout.readline()
    moment = rng.uniform(0, limit)
    where = f"{moment * 1000:.1f} ms after its {begin}"
    time.sleep(moment)
    process.kill()
    return Death(stage.heard(finish(process, said)), where)


def session_under_strace(stage: Stage, words: tuple[str, ...], point: Point | None) -> Result:
    """The command with a double of its interpreter: the runner's side of the conversation runs under strace.

    The client starts the runner with its own ``sys.executable``, which is what it was called by.
    """
    double = stage.place / "python"
    command = " ".join(f"'{word}'" for word in strace(stage.place / "trace", point))
    double.write_text(f'#!/bin/sh\nexec {command} "{sys.executable}" "$@"\n')
    double.chmod(0o755)
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = _start(stage, [str(double), "-m", "holdfast", *words], executable=sys.executable, env=env)
    return stage.heard(finish(process))


class Attached:
    """strace on a process that runs already; when this returns from entering, every call of it is watched."""

    def __init__(self, stage: Stage, pid: int, point: Point | None = None) -> None:
        self.trace = stage.place / f"trace-{pid}"
        command = [*strace(self.trace, point, quiet=False), "-p", str(pid)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Attached:
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert b"attached" in line, line
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=60)

    def killed_it(self) -> bool:
        return b"killed by SIGKILL" in self.trace.read_bytes()


def strace(trace: Path, point: Point | None = None, *, quiet: bool = True) -> list[str]:
    words = ["strace", *(["-qq"] if quiet else []), "-y", "-s", "0", "-o", str(trace), "-e", f"trace={CALLS}"]
    if point is not None:
        words += ["-e", f"inject={point.call}:signal=KILL:when={point.number}"]
    return words


def storm(process: subprocess.Popen[bytes], rng: random.Random) -> None:
    """Ctrl-C several times, as an impatient user does."""
    for _ in range(rng.randint(2, 6)):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(rng.uniform(0, 0.01))


def finish(process: subprocess.Popen[bytes], said: bytes = b"") -> Result:
    with process:
        out, err = process.communicate(timeout=120)
    return Result(process.returncode, said + out, err.decode("utf-8", "replace"))


def _start(
    stage: Stage, command: list[str], executable: str | None = None, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        bufsize=0,  # a line that is read must not take the next ones with it
        executable=executable,
        cwd=stage.project,
        env={**stage.env, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _last_path(trace: Path) -> str:
    points = boundaries(trace)
    return points[-1].path if points else ""
