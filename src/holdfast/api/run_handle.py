"""``Run``: one run, with its status, log, metrics and outputs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from holdfast import lifecycle
from holdfast.api.dialog import ProgramDialog, warn
from holdfast.api.documented_errors import documented_errors, raised_documented
from holdfast.api.metrics import Metrics
from holdfast.api.option_checks import checked_seconds, checked_text
from holdfast.api.outputs import Outputs
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.runs import annotate, daily_cleanup, stop
from holdfast.engine.runs.reconcile import settle
from holdfast.engine.runs.run_target import target_of
from holdfast.engine.runs.watch import Watch
from holdfast.errors import RunFailedError, StillRunningError, StoreError, UnfinishedError, UsageError
from holdfast.ledger import Stopwatch, now_ns
from holdfast.runner.decoding import readable
from holdfast.runner.store import layout
from holdfast.store import history_record, runs, verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from holdfast.model import Json
    from holdfast.store.home import Home

_LOG_END = 4000  # characters of the log in an error


class Run:
    """A run of the history. Made by ``holdfast.submit``, ``holdfast.run`` and ``holdfast.runs``.

    It holds no connection and no open file: it can be used from several threads, after ``fork``, and pickled. While
    the run is open, ``status``, ``record``, ``log`` and ``metrics`` ask its target for news; where that does not
    answer, they are as last seen.
    """

    def __init__(self, home: Home, uid: str, *, restart: bool = False, on_end: str = "") -> None:
        self._home = home
        self._restart = restart
        self._on_end = on_end
        self.uid = uid

    def __repr__(self) -> str:
        record = self._record()
        return f"<Run {record['run_number']} {record['script_name']} on {record['target']}: {record['status']}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    @property
    def id(self) -> str:
        """The run id, as in ``digits_1700000000000``."""
        return str(self._record()["run_id"])

    @property
    def number(self) -> int:
        """The run's number in its project."""
        number = self._record()["run_number"]
        return number if isinstance(number, int) else 0

    @property
    def script(self) -> str:
        """The script's path in the project."""
        return str(self._record()["script_name"])

    @property
    def arguments(self) -> list[str]:
        """The arguments that the script was given."""
        arguments = self._record()["arguments"]
        return list(map(str, arguments)) if isinstance(arguments, list) else []

    @property
    def target(self) -> str:
        """The name of the target."""
        return str(self._record()["target"])

    @property
    def status(self) -> str:
        """Submitting, Preparing, Queued, Running, CancelRequested, Finalizing; Completed, Failed, Canceled or Lost."""
        return str(self.record["status"])

    @property
    def is_done(self) -> bool:
        """Whether the run has ended."""
        return self.status in lifecycle.FINAL

    @property
    def exit_code(self) -> int | None:
        """The script's exit code; None before its end."""
        code = self.record["exit_code"]
        return code if isinstance(code, int) else None

    @property
    def reason(self) -> str:
        """Why the run ended as it did, or what it waits for."""
        return str(self.record["reason"] or "")

    @property
    def created(self) -> datetime | None:
        """When it was submitted."""
        return _moment(self._record()["created_utc"])

    @property
    def duration(self) -> float | None:
        """Seconds that the script has run for."""
        parts = str(self.record["duration"] or "").split(":")
        return int(parts[0]) * 3600 + int(parts[1]) * 60 + float(parts[2]) if len(parts) == 3 else None

    @property
    def tags(self) -> dict[str, Any]:
        """The run's tags; ``tag`` changes them."""
        tags = self._record()["tags"]
        return dict(tags) if isinstance(tags, dict) else {}

    @property
    def record(self) -> dict[str, Any]:
        """Everything that ``holdfast history info`` shows, after asking the target of an open run."""
        self.refresh()
        return self._record()

    @property
    def metrics(self) -> Metrics:
        """What the script logged so far, by name."""
        self.refresh()
        return Metrics(runs.metric_folders(self._files()))

    @property
    def outputs(self) -> Outputs:
        """The files that the script left in ``outputs/``, when it has ended."""
        self.refresh()
        return Outputs(self._home, self.uid)

    @documented_errors
    def refresh(self) -> Run:
        """Ask the target for news of an open run; a target that does not answer changes nothing."""
        run = self._files()
        if not _is_closed(run):
            settle(self._home, [run], warn)
        return self

    @documented_errors
    def log(self) -> str:
        """The script's output so far."""
        self.refresh()
        return self._log_text()

    def follow(self, timeout: float | None = None) -> Iterator[str]:
        """The lines of the log without their ends, those of an open run as they come, until it ends.

        Stopping in the middle never stops the run. After ``timeout`` seconds ``StillRunningError`` is raised.
        """
        with raised_documented():
            checked_seconds("timeout", timeout)
            if _is_closed(self._files()):
                *lines, rest = self._log_text().split("\n")  # and not at the \r of a progress bar, as below
                yield from [*lines, rest] if rest else lines
                return
            listener, process = _Lines(), os.getpid()
            for _ in self._watched(listener, timeout):
                for text in listener.complete():
                    yield text
                    if os.getpid() != process:
                        what = "this iterator of follow() belongs to the process that made it"
                        raise UsageError(what, where=self.id, hint="call follow() again in the forked process")
            yield from listener.rest()

    @documented_errors
    def wait(self, timeout: float | None = None, *, check: bool = False) -> Run:
        """Wait for the run to end and return it. After ``timeout`` seconds ``StillRunningError`` is raised.

        With ``check``, a run that did not complete is a ``RunFailedError``.
        """
        checked_seconds("timeout", timeout)
        if not _is_closed(self._files()):
            for _ in self._watched(_Silence(), timeout):
                pass
        if check:
            self._check()
        return self

    @documented_errors
    def cancel(self) -> Run:
        """End the run: its processes get SIGTERM, and SIGKILL after the grace period. Does not wait for that."""
        if not _is_closed(self._files()):
            stop.cancel(self._home, self.uid, by=os.environ.get("USER", "the user"))
        return self

    @documented_errors
    def result(self, timeout: float | None = None, *, allow_pickle: bool = False) -> Any:
        """Wait for a call of a remote function to end and return its value; a ``UsageError`` for a script.

        An exception of the function is a ``RemoteError``, a run that ended otherwise a ``RunFailedError``. After
        ``timeout`` seconds ``StillRunningError`` is raised. With ``allow_pickle`` a pickled value is read, which runs
        code that the target chose.
        """
        from holdfast.api import results

        self.wait(timeout)
        return results.read(self, allow_pickle=allow_pickle)

    @documented_errors
    def tag(self, **tags: Any) -> Run:
        """Add tags; ``None`` removes one."""
        annotate.add_tags(self._home, [self.uid], tags)
        return self

    @documented_errors
    def note(self, text: str) -> Run:
        """Set the run's description."""
        annotate.add_note(self._home, [self.uid], text if text == "" else checked_text("the note", text))
        return self

    @documented_errors
    def _files(self) -> runs.Run:
        return runs.read(self._home, self.uid)

    @documented_errors
    def _record(self) -> Json:
        return history_record.record(self._files())

    def _log_text(self) -> str:
        try:
            with open(layout.log(self._files().attempt), "rb") as source:
                return readable(source.read())
        except FileNotFoundError:
            return ""

    def _watched(self, listener: _Lines | _Silence, timeout: float | None) -> Iterator[None]:
        """Goes on with each piece of news from the target; then all that the run left is here."""
        home, until = self._home, None if timeout is None else time.monotonic() + timeout
        target, dialog = target_of(self._files().request, home.path), ProgramDialog(None)
        line = Line(home, target, dialog.lost, dialog.back, patient=True, until=until)
        try:
            stopwatch = Stopwatch(now_ns())
            watch = Watch(home, line, self.uid, listener, stopwatch, restart=self._restart, on_end=self._on_end)
            yield from watch.steps()
        except UnfinishedError as error:
            if until is None or time.monotonic() < until:
                raise
            what = f"the run did not end within {timeout:g} s; it continues"
            raise StillRunningError(what, where=self.id, hint="wait() waits again, cancel() ends it") from error
        finally:
            line.close()
        if not _is_closed(self._files()):
            settle(home, [self._files()], warn)
        self._verify()
        daily_cleanup.daily(home, warn)

    def _verify(self) -> None:
        run = self._files()
        closed = next((event for event in run.events if event.get("type") == "closed"), {})
        wrong = verify.differences(run, closed)
        if wrong:
            hint = "the disk may be failing; check it before you use this run"
            raise StoreError("files of the run are damaged", where=run.path, answer="\n".join(wrong), hint=hint)

    def _check(self) -> None:
        record = self._record()
        if record["status"] != lifecycle.COMPLETED:
            reason = f": {record['reason']}" if record["reason"] else ""
            what = f"run {record['run_number']} ended as {record['status']}{reason}"
            end = self._log_text()[-_LOG_END:]
            hint = f"holdfast logs -r {record['run_number']}"
            raise RunFailedError(what, where=str(record["run_id"]), answer=end, hint=hint)


class _Silence:
    """Listens to a run and keeps nothing."""

    def write(self, block: bytes) -> None:
        """The log is in the store."""

    def read(self, block: bytes) -> None:
        """So are the events."""

    def progress(self, text: str) -> None:
        """There is no terminal."""

    def another_attempt(self, reason: str) -> None:
        """The run was restarted."""

    def cut(self, file: str) -> None:
        warn(f"the target sent more of {file} than allowed; the rest was discarded")


class _Lines(_Silence):
    """Listens to the log, as lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def write(self, block: bytes) -> None:
        *lines, self._rest = (self._rest + block).split(b"\n")
        self._lines += lines

    def complete(self) -> list[str]:
        lines, self._lines = self._lines, []
        return [readable(line) for line in lines]

    def rest(self) -> list[str]:
        last = [readable(self._rest)] if self._rest else []
        return self.complete() + last


def _is_closed(run: runs.Run) -> bool:
    return lifecycle.state_of(run.events) in lifecycle.FINAL or bool(run.damage)


def _moment(text: object) -> datetime | None:
    from datetime import datetime

    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
