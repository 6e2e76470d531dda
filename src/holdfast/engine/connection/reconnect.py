"""Reconnects to a target until it answers. A broken connection never changes the state of a run.

Errors that waiting cannot fix (a refused login, a malformed answer) are retried three times and then raised.
"""

from __future__ import annotations

import time

from holdfast.engine.connection.channel import WORKING, connect
from holdfast.errors import UnfinishedError, UnreachableError
from holdfast.ledger import now_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.connection.channel import Patience, RunnerChannel
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target

_SOONEST_S, _LATEST_S = 0.1, 1.0
# After so long without an answer the pauses grow further: many clients may be waiting for one machine.
_LONG_S, _LONGEST_PAUSE_S = 300.0, 15.0
# A link may break at any time, and is made again for ever. Where there is no link, a runner that dies at once, time
# after time, is another matter.
_AT_ONCE_S = 1.0
_STRIKES = 5


class Line:
    """``on_lost`` is called with the reason, once per break; ``on_back`` when there is an answer again.

    ``patience`` and ``on_quiet``: as for ``connect``. ``until``: when all of it has to be over, by time.monotonic();
    UnfinishedError is raised then.
    """

    def __init__(
        self,
        home: Home,
        target: Target,
        on_lost: Callable[[UnreachableError], None],
        on_back: Callable[[], None],
        *,
        patient: bool = False,
        patience: Patience = WORKING,
        on_quiet: Callable[[str], None] | None = None,
        until: float | None = None,
    ) -> None:
        self._patience = patience
        self._on_quiet = on_quiet
        self._home = home
        self.target = target
        self._on_lost = on_lost
        self._on_back = on_back
        self._patient = patient
        self._strikes = 0
        self._refusals = 0
        self._waited = 0
        self._since = time.monotonic()
        self._until = until
        self.channel: RunnerChannel = self._connect()

    @property
    def waited_ns(self) -> int:
        """How long the target was waited for so far."""
        return self._waited + self.channel.waited_ns

    def again(self, error: UnreachableError) -> None:
        """Reconnect. A target that never answered is waited for only with ``patient``."""
        if isinstance(error, UnfinishedError):
            raise error
        at_once = time.monotonic() - self._since < _AT_ONCE_S
        is_strike = at_once and self.channel.has_answered and not self.target.kind.is_remote
        self._strikes = self._strikes + 1 if is_strike else 0
        if self._strikes >= _STRIKES or not (self.channel.has_answered or self._patient):
            raise error
        self._refusals = self._refusals + 1 if error.retry_limit is not None else 0
        self._patient = True
        self.channel.close()
        self._on_lost(error)
        pause, lost = _SOONEST_S, now_ns()
        while True:
            self._raise_lasting(error)
            channel = self._connect()
            try:
                channel.hello()
                break
            except UnfinishedError:
                channel.close()
                raise
            except UnreachableError as refusal:
                error = refusal
                self._refusals = self._refusals + 1 if error.retry_limit is not None else 0
                channel.close()
                time.sleep(pause)
                is_long = now_ns() - lost > _LONG_S * 1e9
                pause = min(_LONGEST_PAUSE_S if is_long else _LATEST_S, pause * 2)
            except BaseException:
                channel.close()
                raise
        self._waited = self.waited_ns + now_ns() - lost - channel.waited_ns
        self.channel = channel
        self._since = time.monotonic()
        self._on_back()

    def _connect(self) -> RunnerChannel:
        patience = self._patience
        if self._until is not None:
            patience = patience._replace(total=max(0.0, self._until - time.monotonic()))
        return connect(self._home, self.target, patience, self._on_quiet)

    def _raise_lasting(self, error: UnreachableError) -> None:
        """What was answered so often in a row will be answered again."""
        if error.retry_limit is None or self._refusals < error.retry_limit:
            return
        answer = "\n".join(filter(None, (error.answer, f"tried {self._refusals} times in a row")))
        raise type(error)(error.what, where=error.where, answer=answer, hint=error.hint, code=error.code) from error

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.channel.close()
