"""Watches a run until it ends: through broken connections, and through attempts that were lost with their machine."""

from __future__ import annotations

from holdfast import lifecycle
from holdfast.engine.runs import outputs
from holdfast.engine.runs.follow import UNSEEN, Follower
from holdfast.errors import StoreError, UnfinishedError, UnreachableError
from holdfast.store import history_record, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Protocol, TypeAlias

    from holdfast.engine.connection.reconnect import Line
    from holdfast.ledger import Stopwatch
    from holdfast.store.home import Home

    Steps: TypeAlias = Generator[None, None, str]

    class Listener(Protocol):
        """``write`` gets the bytes of the log, ``read`` those of the events, ``progress`` a line for a terminal."""

        def write(self, block: bytes) -> None: ...

        def read(self, block: bytes) -> None: ...

        def progress(self, text: str) -> None: ...

        def another_attempt(self, reason: str) -> None:
            """The attempt that was followed is lost for this reason, and the run goes on with another one."""

        def cut(self, file: str) -> None:
            """The target sent more of this file than is kept."""


class Watch:
    """``skip``: bytes of the log that are not passed on.

    ``restart``: this program submitted the run, and starts it again where it is lost with its machine.
    """

    def __init__(
        self,
        home: Home,
        line: Line,
        uid: str,
        listener: Listener,
        stopwatch: Stopwatch,
        skip: int = 0,
        *,
        restart: bool = False,
    ) -> None:
        self._home = home
        self._line = line
        self._uid = uid
        self._listener = listener
        self._stopwatch = stopwatch
        self._skip = skip
        self._restart = restart

    def to_the_end(self) -> None:
        for _ in self.steps():
            pass

    def steps(self) -> Steps:
        """Goes on after each piece of news; returns the state that the run ended in. The connection is closed then."""
        try:
            return (yield from self._through_all_attempts())
        except OSError as error:
            if error.filename is None:  # not of our own files: the stream that the listener writes to
                raise
            hint = f"free disk space or fix the problem, then: {self._again}"
            what, answer = "the output of the run could not be stored here; the run continues", str(error.strerror)
            raise StoreError(what, where=str(error.filename), answer=answer, hint=hint) from error
        except UnfinishedError:
            raise
        except UnreachableError as error:
            hint = "\n".join(filter(None, (error.hint, f"then: {self._again}")))
            what = f"{error.what}; the run continues"
            raise type(error)(what, where=error.where, answer=error.answer, hint=hint, code=error.code) from error
        finally:
            self._line.close()

    @property
    def _again(self) -> str:
        """The command that goes on watching."""
        from shlex import quote

        run_id = runs.read(self._home, self._uid).request.get("run_id") or self._uid
        return f"holdfast logs -f -r {quote(str(run_id))}"

    def _through_all_attempts(self) -> Steps:
        """After an attempt that was lost with its machine or killed, go on with the next one, if there is one."""
        home, uid, listener, skip = self._home, self._uid, self._listener, self._skip
        while True:
            run = runs.read(home, uid)
            follower = Follower(home, uid, listener.write, listener.read, skip, run.attempt_name, listener.progress)
            try:
                state = yield from self._through_all_breaks(follower)
            finally:
                follower.close()
            for name in sorted(follower.cut):
                listener.cut(name)
            if state == "gone" or state in UNSEEN:
                from holdfast.engine.runs import reconcile

                reconcile.settle(home, [run])
            if self._restart:
                self._start_again_if_due()
            if runs.read(home, uid).attempt_number == run.attempt_number:
                return state
            lost = runs.attempt(runs.read(home, uid), run.attempt_number)
            listener.another_attempt(history_record.reason(lost, outputs=False) or "")
            skip = 0

    def _through_all_breaks(self, follower: Follower) -> Steps:
        """Whatever happens to the link meanwhile."""
        home, line = self._home, self._line
        while True:
            try:
                state = yield from follower.steps(line.channel)
                if state in UNSEEN and not self._is_gone():
                    continue
                self._stopwatch.watched()
                if line.channel.hello()["store"] != home.id:
                    outputs.bring_by_policy(home, line.channel, runs.read(home, self._uid))
                    self._stopwatch.lap("fetch")
                return state
            except UnreachableError as error:
                line.again(error)

    def _is_gone(self) -> bool:
        """A run that waits in a queue, or that another node has: only its launcher knows whether that is still so."""
        ticket = runs.read(self._home, self._uid).ticket
        return self._line.target.launcher.look(self._line.channel, [ticket])[ticket] == "gone"

    def _start_again_if_due(self) -> None:
        home, line = self._home, self._line
        run = runs.read(home, self._uid)
        if lifecycle.state_of(run.events) != lifecycle.LOST and not lifecycle.was_killed(run.events):
            return
        from holdfast.engine.submit import retry

        while retry.is_due(home, run):
            try:
                retry.start_again(home, line.target, line.channel, run)
                return
            except UnreachableError as error:
                line.again(error)
                run = runs.read(home, self._uid)
