"""Writes a run's log: byte for byte into a pipe, filtered on a terminal."""

from __future__ import annotations

import os
import sys

from holdfast.engine.runs.watch import Watch
from holdfast.errors import Detached
from holdfast.present.terminal import Progress, is_tty, show
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.cli.gpu_watch import GpuNews
    from holdfast.engine.connection.reconnect import Line
    from holdfast.ledger import Stopwatch
    from holdfast.model import Json
    from holdfast.store.home import Home


class LogWriter:
    """Writes bytes straight to the stream's descriptor, so that nothing waits in a buffer."""

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._fd = stream.fileno()
        self._pager = getattr(stream, "sink", None)
        self._filter = None
        self._at_line_start = True
        if is_tty(stream):
            from holdfast.present.terminal import EscapeFilter

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
            view = view[self._write_some(view) :]

    def _write_some(self, view: memoryview) -> int:
        try:
            return self._pager.write(view) if self._pager else os.write(self._fd, view)
        except BrokenPipeError:
            raise
        except BlockingIOError:  # another program made this terminal or pipe non-blocking
            import select

            select.select([], [self._fd], [])
            return 0
        except OSError as error:
            from holdfast.engine.system_errors import output_error

            raise output_error(error) from error

    @property
    def is_at_line_start(self) -> bool:
        return self._at_line_start

    def _start_line(self) -> None:
        if not self._at_line_start:
            self._at_line_start = True
            self.write(b"\n")


class Screen:
    """What who watches is shown: how the environment comes along, until the script starts; the log; news of GPUs.

    ``gpu``: the run requested GPUs; they are shown before the log.
    """

    def __init__(self, log: LogWriter, *, gpu: bool, skip: int = 0) -> None:
        self._log = log
        self._progress = Progress(sys.stderr)
        self._rest = b""
        self._gpus: GpuNews | None = None
        if gpu:
            from holdfast.cli.gpu_watch import GpuNews

            self._gpus = GpuNews(log, self._progress, facts=not skip)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_progress()
        if self._gpus is not None:
            self._gpus.let_go()

    def another_attempt(self, reason: str) -> None:
        self._stop_progress()
        self._rest = b""
        if self._gpus is not None:
            self._gpus.another_attempt()
        self._log.line(f"the run is restarted{': ' if reason else ''}{show(reason)}")

    def cut(self, file: str) -> None:
        sys.stderr.write(f"WARNING: the target sent more of {show(file)} than allowed; the rest was discarded\n")

    def write(self, block: bytes) -> None:
        if self._gpus is None or not self._gpus.is_waiting:
            self._progress.clear()
        if self._gpus is None:
            self._log.write(block)
        else:
            self._gpus.log(block)

    def progress(self, text: str) -> None:
        """One line below the log, unless the log is in the middle of a line of its own."""
        if not text:
            self._progress.clear()
        elif self._log.is_at_line_start and (self._gpus is None or not self._gpus.is_waiting):
            self._progress.update(f"Spark: {text}")

    def read(self, block: bytes) -> None:
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        if self._gpus is not None:
            self._gpus.read(lines)
        if lines and b'"type":"preparing"' in lines[-1]:
            self._tell_progress(_object(lines[-1]))
        elif self._gpus is None or not self._gpus.is_waiting:
            self._progress.clear()

    def _tell_progress(self, event: Json) -> None:
        done = f" {event.get('done')}/{event['total']}" if event.get("total") else ""
        self._progress.update(f"environment: {event.get('phase')}{done} {event.get('name') or ''}")

    def _stop_progress(self) -> None:
        if self._gpus is not None:
            self._gpus.stop_waiting()
        self._progress.clear()


def _object(line: bytes) -> Json:
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def watch(
    home: Home,
    line: Line,
    uid: str,
    run_id: str,
    log: LogWriter,
    stopwatch: Stopwatch,
    skip: int = 0,
    *,
    gpu: bool | None = None,
    restart: bool = False,
) -> None:
    """Show a run's log from a byte on until it ends. Ctrl-C stops the watching and never the run.

    ``gpu``: whether it requested GPUs; None reads its plan, which may not be here yet right after a submit.
    ``restart``: this command submitted the run, and starts it again where it is lost with its machine.
    """
    if gpu is None:
        gpu = bool((runs.read_plan(runs.read(home, uid)) or {}).get("gpu"))
    try:
        with Screen(log, gpu=gpu, skip=skip) as screen:
            Watch(home, line, uid, screen, stopwatch, skip, restart=restart).to_the_end()
    except KeyboardInterrupt:
        from shlex import quote

        name = quote(run_id)
        hint = f"holdfast logs -f -r {name} follows the log again; holdfast cancel -r {name} cancels the run"
        raise Detached("stopped following the log; the run continues", hint=hint) from None
    finally:
        line.close()
        sys.stderr.flush()
