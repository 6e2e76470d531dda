"""Follows a run: copies new bytes from the target into the mirror and calls the listener."""

from __future__ import annotations

import os

from holdfast import answers
from holdfast.runner.store import layout
from holdfast.store import mirror, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.store.home import Home
    from holdfast.store.runs import Run


# States in which a target cannot tell whether the run goes on: its launcher can.
UNSEEN = ("queued", "elsewhere")
# Frames in a row of another store that carry nothing: more than a run has files, in several rounds.
_MOST_EMPTY = 100_000


def ask_early(channel: RunnerChannel, uid: str) -> None:
    """Send the first request of a follower together with the start of its run; for a store that is not ours."""
    channel.ask_behind("pull", uid=uid, attempt="a1", have={}, carry=True, wait=True)


def bring_up_to_date(home: Home, channel: RunnerChannel, run: Run) -> None:
    """All that its last attempt has written by now, into the mirror."""
    follower = Follower(home, run.uid, _ignore, attempt=run.attempt_name)
    try:
        follower.follow(channel, wait=False)
    finally:
        follower.close()


def _ignore(_block: bytes) -> None:
    """The mirror alone wants these bytes."""


class Follower:
    """Bring over all there is, then all that comes, until the run is closed or gone.

    ``on_log`` gets the log's bytes, from byte ``skip`` on, ``on_event`` those of the events, and ``on_progress`` a line
    that is shown and not kept. ``follow`` may be called again with a new channel after a break: it continues where the
    mirror ends.
    """

    def __init__(
        self,
        home: Home,
        uid: str,
        on_log: Callable[[bytes], None],
        on_event: Callable[[bytes], None] | None = None,
        skip: int = 0,
        attempt: str = "a1",
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._home = home
        self._uid = uid
        self._attempt = attempt
        self._on_log = on_log
        self._on_event = on_event
        self._on_progress = on_progress
        self._log = Tail(layout.log(home.run(uid, attempt)), skip)
        self._events = Tail(layout.events(home.run(uid, attempt)))
        self.cut: set[str] = set()  # files of which the target sent more than is kept

    def follow(self, channel: RunnerChannel, *, wait: bool = True) -> str:
        steps = self.steps(channel, wait=wait)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return str(end.value)

    def steps(self, channel: RunnerChannel, *, wait: bool = True) -> Generator[None, None, str]:
        """The same, one answer of the target after another; returns the state."""
        home, uid, attempt = self._home, self._uid, self._attempt
        shared = channel.hello()["store"] == home.id
        have = {} if shared else mirror.lengths(home, uid, attempt)
        quota = mirror.Quota(runs.read(home, uid).request.get("max_log"), have)
        self._show()
        yield
        state, empty = "", 0
        options = {"uid": uid, "attempt": attempt, "have": quota.to_ask(have), "carry": not shared, "wait": wait}
        for header, payload in channel.stream("pull", **options):
            if header.get("file") is not None:
                mirror.append(home, uid, attempt, header, payload, quota)
                self.cut |= quota.cut
            self._show()
            progress = header.get("progress")
            if self._on_progress is not None and isinstance(progress, str):
                self._on_progress(progress)
            yield
            is_news = wait and (shared or progress is not None)  # of a run that may take days
            empty = 0 if payload or is_news else empty + 1
            if header.get("end"):
                state = answers.text(header, "state")
            elif empty > _MOST_EMPTY:
                raise answers.malformed("file", None, f"there after {_MOST_EMPTY} frames without content")
        if state not in ("closed", "gone", *UNSEEN) and (wait or state != "alive"):
            raise answers.malformed("state", state, "one that a run can be in")
        return state

    def close(self) -> None:
        for tail in (self._log, self._events):
            tail.close()

    def _show(self) -> None:
        if self._on_event is not None:
            for block in self._events.new():
                self._on_event(block)
        for block in self._log.new():
            self._on_log(block)


class Tail:
    """The bytes of a growing file that have not been seen yet, in pieces that fit in memory."""

    def __init__(self, path: str, skip: int = 0) -> None:
        self._path = path
        self._skip = skip
        self._fd = -1

    def new(self) -> Iterator[bytes]:
        if self._fd < 0:
            try:
                self._fd = os.open(self._path, os.O_RDONLY)
            except FileNotFoundError:
                return
            os.lseek(self._fd, self._skip, os.SEEK_SET)
        while True:
            block = os.read(self._fd, 1024 * 1024)
            if not block:
                return
            yield block

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
