"""Reports the builder's work: progress lines, a log with all output of the tools, its last lines in an error."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections import deque
from typing import Any

from .scrubbing import scrub

TAIL_LINES = 30
BETWEEN_S = 0.05


class Report:
    """Nothing leaves by it that still has a secret in a URL."""

    def __init__(self, out: int, log: str | None) -> None:
        self._out = os.fdopen(out, "wb", buffering=0)
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if log else None
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._last_progress = 0.0

    @property
    def tail(self) -> list[str]:
        return list(self._tail)

    def say(self, event: dict[str, Any]) -> None:
        self._out.write(json.dumps(event).encode() + b"\n")

    def progress(self, phase: str, name: str, done: int, total: int, size: int = 0) -> None:
        now = time.monotonic()
        if done < total and now - self._last_progress < BETWEEN_S:
            return
        self._last_progress = now
        event = {"phase": phase, "name": scrub(name), "done": done, "total": total, "bytes": size}
        self.say({"event": "progress", **event})

    def line(self, text: str) -> None:
        """A line of a tool's output."""
        text = scrub(text.rstrip("\n"))
        self._tail.append(text)
        if self._log is not None:
            os.write(self._log, text.encode("utf-8", "surrogateescape") + b"\n")

    def exception(self) -> None:
        for text in traceback.format_exc().splitlines():
            self.line(text)
