"""Sends output that is longer than the screen through a pager, as git does: $HOLDFAST_PAGER, $PAGER or less.

Output is held back until it fills the screen, so that short output starts no process.
"""

from __future__ import annotations

import io
import os
import signal
import sys

from holdfast.present.terminal import neutralise, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import TextIO

DEFAULT = "less"
_KEPT = 1 << 20  # bytes that are shown without a pager if the pager cannot be started
_BROKEN = (1, 126, 127)  # exit codes: general failure, and a shell that could not start the command


def start() -> None:
    """From now on, standard output goes through a pager once it is longer than the screen."""
    command = _command()
    if command:
        sys.stdout = PagedOutput(sys.stdout, command)


def finish() -> None:
    """Show what is held back, or wait until the user leaves the pager."""
    if isinstance(sys.stdout, PagedOutput):
        paged, sys.stdout = sys.stdout, sys.stdout.terminal
        paged.sink.finish()


def _command() -> str:
    """Empty where there is no pager, or no terminal that could show one."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return ""
    command = os.environ.get("HOLDFAST_PAGER", os.environ.get("PAGER"))
    if command is not None:
        return "" if command.strip() in ("", "cat") else command
    from shutil import which

    return DEFAULT if which(DEFAULT) else ""


class PagedOutput(io.TextIOBase):
    """Standard output at a terminal, with a pager in between."""

    def __init__(self, terminal: TextIO, command: str) -> None:
        terminal.flush()
        self.terminal = terminal
        try:
            lines = os.get_terminal_size(terminal.fileno()).lines
        except OSError:
            lines = 24
        self.sink = _Sink(terminal.fileno(), lines or 24, width(terminal), command)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.terminal.encoding

    @property
    def buffer(self) -> _Sink:
        return self.sink

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.terminal.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.sink.write(neutralise(text).encode(self.encoding, "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        self.sink.release()


class _Sink:
    """Bytes for a terminal of so many lines and columns."""

    def __init__(self, terminal: int, lines: int, columns: int, command: str) -> None:
        self._terminal = terminal
        self._lines = lines
        self._columns = columns
        self._command = command
        self._rows = 0
        self._held = b""
        self._kept: bytes | None = b""  # what was sent to the pager; None if that is too much
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = -1

    def write(self, data: bytes | memoryview) -> int:
        data = bytes(data)
        if self._process is not None:
            self._send(data)
            return len(data)
        self._held += data
        self._rows += sum(1 + len(line) // self._columns for line in data.split(b"\n")[:-1])
        if self._command and self._rows >= self._lines:
            self._start()
        return len(data)

    def flush(self) -> None:
        self.release()

    def release(self) -> None:
        """Short output that a message on stderr follows goes to the terminal first."""
        view = memoryview(self._held)
        self._held = b""
        while view:
            view = view[os.write(self._terminal, view) :]

    def finish(self) -> None:
        if self._process is not None:
            self._end()
        self.release()

    def _start(self) -> None:
        import subprocess

        less = {"LESS": "FRX", "LV": "-c", **os.environ}  # git's defaults: quit if it fits, colours, keep the screen
        self._process = subprocess.Popen(["/bin/sh", "-c", self._command], stdin=subprocess.PIPE, env=less, bufsize=0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
        if os.isatty(2) and self._process.stdin is not None:
            # A message would otherwise be written over the pager's screen.
            sys.stderr.flush()
            self._stderr = os.dup(2)
            os.dup2(self._process.stdin.fileno(), 2)
        held, self._held = self._held, b""
        self._send(held)

    def _send(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        kept = self._kept
        self._kept = kept + data if kept is not None and len(kept) + len(data) <= _KEPT else None
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
        except BrokenPipeError:
            if not self._end():
                raise

    def _end(self) -> bool:
        """Wait for the pager. Where it is broken, return True: what it was sent is written without it."""
        assert self._process is not None
        process, self._process = self._process, None
        if self._stderr >= 0:
            sys.stderr.flush()
            os.dup2(self._stderr, 2)
            os.close(self._stderr)
            self._stderr = -1
        if process.stdin is not None:
            process.stdin.close()
        code = process.wait()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if code not in _BROKEN or self._kept is None:
            return False
        self._command = ""
        self._held = self._kept
        return True
