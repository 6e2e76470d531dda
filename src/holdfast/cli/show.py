"""A run's log on its way to the person: byte-exact into a pipe, without tricks on a terminal."""

from __future__ import annotations

import os
import sys

from holdfast.cli.terminal import Progress, is_tty
from holdfast.engine import outputs
from holdfast.engine.follow import Follower
from holdfast.errors import Detached, StoreError, UnreachableError
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.engine.line import Line
    from holdfast.store.home import Home


class LogWriter:
    """Writes bytes straight to the stream's descriptor, so that nothing waits in a buffer."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._fd = stream.fileno()
        self._filter = None
        self._at_line_start = True
        if is_tty(stream):
            from holdfast.cli.terminal import EscapeFilter

            self._filter = EscapeFilter()

    def line(self, text: str) -> None:
        self._start_line()
        self.write((text + "\n").encode("utf-8", "backslashreplace"))

    def heading(self, text: str) -> None:
        self._start_line()
        self.line(f"\n{text}\n{'=' * len(text)}")

    def write(self, block: bytes) -> None:
        if self._filter is not None:
            block = self._filter.feed(block)
        if not block:
            return
        self._at_line_start = block.endswith(b"\n")
        view = memoryview(block)
        while view:
            view = view[os.write(self._fd, view) :]

    def _start_line(self) -> None:
        if not self._at_line_start:
            self._at_line_start = True
            self.write(b"\n")


class Preparing:
    """Shows how the environment of a run comes along, on a terminal, until the script starts."""

    def __init__(self) -> None:
        self._progress = Progress(sys.stderr)

    def __enter__(self) -> Preparing:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.clear()

    def read(self, block: bytes) -> None:
        if b'"type":"preparing"' not in block:
            self._progress.clear()
            return
        import json

        last = json.loads(block.splitlines()[-1])
        done = f" {last['done']}/{last['total']}" if last.get("total") else ""
        self._progress.update(f"environment: {last.get('phase')}{done} {last.get('name') or ''}")


def watch(home: Home, line: Line, uid: str, run_id: str, log: LogWriter, skip: int = 0) -> str:
    """Show a run's log from a byte on until it ends. Ctrl-C stops the watching and never the run."""
    try:
        with Preparing() as preparing:
            return _through_all_attempts(home, line, uid, log, preparing, skip)
    except OSError as error:
        if error.filename is None:  # not of our own files: the stream that we write to
            raise
        hint = f"make room or mend it, then holdfast logs -f -r {run_id} watches again"
        what, answer = "what the run writes could not be kept here; the run goes on", str(error.strerror)
        raise StoreError(what, where=str(error.filename), answer=answer, hint=hint) from error
    except KeyboardInterrupt:
        hint = f"holdfast logs -f -r {run_id} watches again; holdfast cancel -r {run_id} ends it"
        raise Detached("\nstopped watching; the run goes on", hint=hint) from None
    finally:
        line.close()
        sys.stderr.flush()


def _through_all_attempts(home: Home, line: Line, uid: str, log: LogWriter, preparing: Preparing, skip: int) -> str:
    """A run that is lost with its machine may be started again; whoever watches goes on with the new attempt."""
    while True:
        run = runs.read(home, uid)
        follower = Follower(home, uid, log.write, preparing.read, skip, run.attempt_name)
        try:
            state = _to_the_end(home, line, follower, uid)
        finally:
            follower.close()
        if state == "gone":
            from holdfast.engine import reconcile

            reconcile.settle(home, [run])
        if runs.read(home, uid).attempt_number == run.attempt_number:
            return state
        log.line("the run was lost with its machine and is started again")
        skip = 0


def _to_the_end(home: Home, line: Line, follower: Follower, uid: str) -> str:
    """Whatever happens to the link meanwhile."""
    while True:
        try:
            state = follower.follow(line.channel)
            if line.channel.hello()["store"] != home.id:
                outputs.bring_by_policy(home, line.channel, runs.read(home, uid))
            return state
        except UnreachableError as error:
            line.again(error)
