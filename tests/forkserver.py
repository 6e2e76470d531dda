"""Commands at a few milliseconds each: one process keeps the modules of earlier commands loaded and forks for each.

``Forkserver`` behaves like ``Desk.holdfast``: real process, real exit code, real stdout and stderr, a time limit.
"""

from __future__ import annotations

import base64
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

HUNG = -999  # the exit code of a command that did not end within its limit


class Forkserver:
    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env), cwd=cwd
        )

    def __enter__(self) -> Forkserver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def run(self, *argv: str, limit: float = 10) -> tuple[int, bytes, str]:
        """Exit code, stdout and stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"argv": argv, "limit": limit}).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer["code"], base64.b64decode(answer["out"]), base64.b64decode(answer["err"]).decode(errors="replace")


def _serve() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        answer = _run(asked["argv"], asked["limit"])
        os.write(answers, json.dumps(answer).encode() + b"\n")


def _run(argv: list[str], limit: float) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as loaded:
        gc.freeze()  # what is here is not copied for a collection in the child
        pid = os.fork()
        if pid == 0:
            _become(argv, out.fileno(), err.fileno(), loaded.fileno())
        code = _wait(pid, limit)
        out_data, err_data, names = (_content(file) for file in (out, err, loaded))
    for name in names.decode().split():  # the next command that needs them finds them loaded
        importlib.import_module(name)
    return {"code": code, "out": base64.b64encode(out_data).decode(), "err": base64.b64encode(err_data).decode()}


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _become(argv: list[str], out: int, err: int, loaded: int) -> None:
    code = 1
    before = set(sys.modules)
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        from holdfast.cli.main import run

        code = run(argv)
    except BaseException:  # a traceback is what a caller looks for
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        names = [name for name in sys.modules if name not in before and name.startswith("holdfast.")]
        os.write(loaded, " ".join(names).encode())
        os._exit(code)


def _wait(pid: int, limit: float) -> int:
    deadline = time.monotonic() + limit
    pause = 0.0005
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return HUNG


if __name__ == "__main__":
    _serve()
