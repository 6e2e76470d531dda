"""The log of a run: what its script prints, kept as it comes."""

import errno
import hashlib
import os
import sys

from ..machine import limits
from ..store import layout

MYPY = False
if MYPY:
    from .printed_metrics import PrintedMetrics

BLOCK = 256 * 1024


class ScriptLog:
    """The script's output, byte for byte, hashed on its way. A full disk or a limit stops the log, never the script."""

    def __init__(self, attempt: "bytes", limit: "int", printed: "PrintedMetrics | None" = None) -> "None":
        self._fd = os.open(layout.log(attempt), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._limit = limit
        self._hash = hashlib.sha256()
        self._printed = printed
        self.size = 0
        self.trouble = ""

    def copy(self, output: "int") -> "bool":
        """Take what is there now; False at the end of the stream."""
        try:
            block = os.read(output, BLOCK)
        except BlockingIOError:
            return True
        self._keep(block)
        return bool(block)

    def drain(self, output: "int") -> "None":
        """Take all that is left without waiting for more."""
        while True:
            try:
                block = os.read(output, BLOCK)
            except BlockingIOError:
                return
            if not block:
                return
            self._keep(block)

    def seal(self) -> "tuple[int, str]":
        self._look_for_metrics(b"")
        try:
            os.fsync(self._fd)
        except OSError as error:
            self.trouble = self.trouble or str(error)
        return self.size, self._hash.hexdigest()

    def _look_for_metrics(self, block: "bytes") -> "None":
        """What goes wrong here must not disturb the run."""
        if self._printed is None:
            return
        try:
            self._printed.feed(block)
        except Exception as error:
            self._printed = None
            sys.stderr.write("metrics are no longer read from the log: %s\n" % error)

    def _keep(self, block: "bytes") -> "None":
        if block:
            self._look_for_metrics(block)
        if self.trouble:
            return
        room = self._limit - self.size
        if len(block) > room:
            block = block[:room]
            self.trouble = "the log reached its limit of %d bytes (maxLogSize); the script continues" % self._limit
        view = memoryview(block)
        while view:
            try:
                written = os.write(self._fd, view)
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                self.trouble = "writing the log failed: %s; the script continues" % limits.told(error)
                return
            self._hash.update(view[:written])
            self.size += written
            view = view[written:]
