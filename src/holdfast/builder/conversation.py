"""Handles one request: progress lines, then one final line, whatever happens to the worker process.

The work is done by a child in a process group of its own, so that a stop ends every compiler and download at once,
and so that a crash inside a library is still reported.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from . import disk
from .failure import Failed
from .report import Report
from .sealing import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]


def main() -> int:
    request: Json = json.loads(sys.stdin.buffer.read())
    worker = Worker(request)
    signal.signal(signal.SIGTERM, worker.stop)
    signal.signal(signal.SIGINT, worker.stop)
    worker.start()
    if "life" in request:
        threading.Thread(target=worker.stop_when_closed, args=(request["life"],), daemon=True).start()
    last = worker.relay()
    if last["event"] != "done" and request.get("beside"):
        remove_tree(request["beside"])
    _print(last)
    return 0 if last["event"] == "done" else 1


class Worker:
    """The child process that works; it ends with its parent, because it reads from a pipe of the parent."""

    def __init__(self, request: Json) -> None:
        self.request = request
        self.pid = 0
        self.stopped = False

    def start(self) -> None:
        life, self._held = os.pipe()
        self._events, saying = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._held)
            _work(self.request, life, saying)
        os.close(life)
        os.close(saying)
        if self.stopped:
            self.stop()

    def stop(self, *_: object) -> None:
        self.stopped = True
        if self.pid:
            _set_group(self.pid)
            self._end_group()

    def stop_when_closed(self, life: int) -> None:
        """Stop the work when the caller has closed its end of the pipe."""
        os.read(life, 1)
        self.stop()

    def relay(self) -> Json:
        """Pass the progress on; the last event is returned, or made up for a worker that came to say none."""
        last = None
        with os.fdopen(self._events, "rb") as events:
            for line in events:
                event: Json = json.loads(line) if line.endswith(b"\n") else {}
                if event.get("event") == "progress":
                    _print(event)
                elif event:
                    last = event
        self._end_group()
        pid, self.pid = self.pid, 0
        _, status = os.waitpid(pid, 0)
        return last or self._unsaid(status).event()

    def _end_group(self) -> None:
        """Kill the worker's process group; its number cannot be reused until the worker is waited for."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # only the worker itself is left, and it has ended

    def _unsaid(self, status: int) -> Failed:
        if self.stopped:
            return Failed("interrupted", "the build was interrupted", hint="run it again: downloaded files are kept")
        code = os.waitstatus_to_exitcode(status)
        hint = "signal 9 usually means that the machine ran out of memory" if code == -signal.SIGKILL else ""
        return Failed("internal", f"the builder ended without a result (status {code})", hint=hint)


def _print(event: Json) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def _work(request: Json, life: int, saying: int) -> NoReturn:
    _set_group(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, args=(life,), daemon=True).start()
    os.dup2(2, 1)  # what a library prints must not be taken for an event
    report = Report(saying, request.get("log"))
    try:
        last = _answer(request, report)
    except BaseException:
        report.exception()
        last = Failed("internal", "internal error in the builder", where=request.get("log") or "").event()
    report.say(last)
    os._exit(0)


def _set_group(pid: int) -> None:
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass  # the other side was first


def _die_with_parent(life: int) -> NoReturn:
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _answer(request: Json, report: Report) -> Json:
    try:
        return {"event": "done", **_verb(request["verb"])(request, report)}
    except Failed as failed:
        return (disk.full(request) if failed.kind == "disk" else failed).event(report.tail)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return disk.full(request).event(report.tail)


def _verb(name: str) -> Callable[[Json, Report], Json]:
    if name == "solve":
        from .solving import solve

        return solve
    if name == "install":
        from .installing import install

        return install
    from .sealing import verify

    return verify
