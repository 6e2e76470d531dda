"""Follows the log of one run on its target in a thread, however many pages show it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING

from holdfast import lifecycle
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.runs.run_target import target_of
from holdfast.engine.runs.watch import Watch
from holdfast.ledger import Stopwatch, now_ns
from holdfast.runner.store import layout
from holdfast.store import runs
from holdfast.web import log_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model import Json
    from holdfast.store.home import Home

_PAUSE_S = 0.03  # between two events: a script that prints fast is not an event a line
_MOST = 32_768  # bytes that an event carries; pages fetch more than that


class LogFollower:
    """An event has the new lines themselves, made once for all pages: a page that ends where they begin shows them.

    Any other page fetches from where it stopped.
    """

    def __init__(self, home: Home, uid: str, tell: Callable[..., None]) -> None:
        self._home = home
        self._uid = uid
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._is_due = False
        self._told = 0  # the byte where the last line that was told begins
        self._attempt = 0
        self._line: Line | None = None
        run = runs.read(home, uid)
        if lifecycle.state_of(run.events) not in lifecycle.FINAL:
            threading.Thread(target=self._follow, daemon=True, name=f"log-{uid[:6]}").start()

    def stop(self) -> None:
        self._is_stopped = True
        if self._line is not None:
            self._line.close()

    def _follow(self) -> None:
        with contextlib.suppress(Exception):  # a target that cannot be reached: the page keeps what it has
            target = target_of(runs.read(self._home, self._uid).request, self._home.path)
            self._line = Line(self._home, target, lambda _error: None, lambda: None)
            watch = Watch(self._home, self._line, self._uid, self, Stopwatch(now_ns()))
            for _ in watch.steps():
                if self._is_stopped:
                    return
        self._call(self._send, True)

    def write(self, _block: bytes) -> None:
        self._news()

    def read(self, _block: bytes) -> None:
        self._news()

    def progress(self, _text: str) -> None:
        """Shown by terminals only."""

    def another_attempt(self, _reason: str) -> None:
        self._news()

    def cut(self, _file: str) -> None:
        """The page shows the log as it is stored."""

    def _news(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call(self._loop.call_later, _PAUSE_S, self._send, False)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    def _send(self, ended: bool) -> None:
        self._is_due = False
        self._tell(f"log:{self._uid}", **self._changes(), ended=ended)

    def _changes(self) -> Json:
        folder = self._home.run(self._uid)
        attempt = runs.last_attempt(folder)
        if attempt != self._attempt:
            self._attempt, self._told = attempt, 0
        path = layout.log(layout.attempt(folder, attempt))
        try:
            size = os.path.getsize(path)
            if size - self._told > _MOST:  # a long log when the first page opens, or much at once
                self._told = log_window.at_byte(path, -1, 1).start
            window = log_window.at_byte(path, self._told, _MOST)
        except OSError:
            return {"attempt": attempt, "size": 0}
        begin = self._told
        if window.lines:
            self._told = window.end if window.ends_line else window.lines[-1][0]
        return {"attempt": attempt, "size": size, "begin": begin, "end": window.end, "lines": window.lines}
