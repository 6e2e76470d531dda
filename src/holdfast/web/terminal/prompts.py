"""Command prompts of pages: shells, each at a terminal of its own. They end with the server.

Keys go to a shell from the page alone; what it prints is drawn (``screen``) and answers nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.present.terminal import show
from holdfast.web.terminal import controlling_terminal
from holdfast.web.terminal.screen import MOST_COLUMNS, MOST_ROWS, Screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.home import Home
    from holdfast.web.terminal.screen import Piece

_MOST = 10
_PAUSE_S = 0.02  # between two events: a program that prints fast is not an event a line
_BLOCK = 65_536
_PATIENCE_S = 5.0  # of keys that a program does not read
_ROWS, _COLUMNS = 24, 80


class Prompts:
    def __init__(self, home: Home, tell: Callable[..., None]) -> None:
        self._home = home
        self._tell = tell
        self._known: dict[str, Prompt] = {}

    def open(self, title: str, *arguments: str) -> Prompt:
        """``arguments``: a command of ours that opens the shell."""
        if sys.platform == "win32":
            raise UsageError("command prompts in the browser need a Unix terminal", hint="use holdfast shell")
        for known in [known for known in self._known.values() if known.has_ended]:
            del self._known[known.id]
        if len(self._known) >= _MOST:
            raise UsageError(f"{_MOST} command prompts are open", hint="close one of them first")
        environment = {**os.environ, "TERM": "xterm-256color", "HOLDFAST_HOME": self._home.path}
        for name in ("LINES", "COLUMNS"):
            environment.pop(name, None)
        prompt = Prompt(title, (sys.executable, "-m", "holdfast", *arguments), environment, self._tell)
        self._known[prompt.id] = prompt
        return prompt

    def every(self) -> list[Prompt]:
        return list(self._known.values())

    def of(self, prompt_id: str) -> Prompt:
        prompt = self._known.get(prompt_id)
        if prompt is None:
            raise UsageError("this command prompt has ended", hint="open another one")
        return prompt

    def close(self) -> None:
        for prompt in self.every():
            prompt.close()


class Prompt:
    def __init__(
        self, title: str, argv: tuple[str, ...], environment: dict[str, str], tell: Callable[..., None]
    ) -> None:
        self.id = secrets.token_hex(8)
        self.title = title
        self.started = time.time()
        self.has_ended = False
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._screen = Screen(_ROWS, _COLUMNS)
        self._serial = 0
        self._told: list[list[Piece]] = []
        self._scrolled = 0
        self._is_due = False
        self._ours, theirs = os.openpty()
        self._set_size()
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, theirs)
            self._process = subprocess.Popen(
                (sys.executable, "-I", controlling_terminal.__file__, *argv),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
                start_new_session=True,
            )
        os.set_blocking(self._ours, False)
        threading.Thread(target=self._follow, daemon=True, name=f"prompt-{self.id[:4]}").start()

    def shown(self) -> dict[str, Any]:
        """All that a page needs to draw it."""
        with self._lock:
            above = [_visible(line) for line in self._screen.above]
            lines = {number: _visible(line) for number, line in enumerate(self._screen.lines())}
            return {"id": self.id, "title": self.title, "above": above, "lines": lines, **self._facts()}

    def send(self, data: bytes) -> None:
        began = time.monotonic()
        while data and not self.has_ended:
            if time.monotonic() - began > _PATIENCE_S:
                raise UsageError("the program in this command prompt does not read its input")
            if select.select([], [self._ours], [], 0.1)[1]:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._ours, data) :]

    def resize(self, rows: int, columns: int) -> None:
        rows, columns = min(max(rows, 2), MOST_ROWS), min(max(columns, 10), MOST_COLUMNS)
        with self._lock:
            if (rows, columns) != (self._screen.rows, self._screen.columns) and not self.has_ended:
                self._screen.resize(rows, columns)
                self._set_size()
        self._news()

    def close(self) -> None:
        """As closing the window of a terminal does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGHUP)

    def _set_size(self) -> None:
        import fcntl
        import struct
        import termios

        size = struct.pack("HHHH", self._screen.rows, self._screen.columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    def _follow(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while True:
                select.select([self._ours], [], [])
                data = os.read(self._ours, _BLOCK)
                if not data:
                    break
                with self._lock:
                    self._screen.feed(data)
                self._news()
        self._process.wait()
        with self._lock:
            self.has_ended = True
            os.close(self._ours)
        self._news()

    def _news(self) -> None:
        if not self._is_due:
            self._is_due = True
            with contextlib.suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(self._loop.call_later, _PAUSE_S, self._send)

    def _send(self) -> None:
        self._is_due = False
        with self._lock:
            lines = self._screen.lines()
            changed = {
                number: _visible(line)
                for number, line in enumerate(lines)
                if number >= len(self._told) or self._told[number] != line
            }
            count = min(self._screen.scrolled - self._scrolled, len(self._screen.above))
            above = [_visible(line) for line in list(self._screen.above)[-count:]] if count else []
            self._told, self._scrolled = lines, self._screen.scrolled
            self._serial += 1
            news = {"above": above, "lines": changed, **self._facts()}
        self._tell(f"prompt:{self.id}", **news)

    def _facts(self) -> dict[str, Any]:
        screen = self._screen
        return {
            "serial": self._serial,
            "rows": screen.rows,
            "cursor": [screen.row, screen.letters_before_cursor()] if screen.is_cursor_shown else None,
            "application_keys": screen.has_application_keys,
            "bracketed_paste": screen.has_bracketed_paste,
            "ended": self.has_ended,
        }


def _visible(line: list[Piece]) -> list[Piece]:
    return [(style, text if text.isprintable() else show(text)) for style, text in line]
