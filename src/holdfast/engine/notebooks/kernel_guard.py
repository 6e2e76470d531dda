"""Ends the run of a kernel with the process that Jupyter started for it, however that ends."""

from __future__ import annotations

import os
import sys

from holdfast import lifecycle
from holdfast.engine.runs import stop
from holdfast.errors import HoldfastError
from holdfast.store import runs
from holdfast.store.home import open_home

_BY = "the notebook, whose kernel was closed"


class Guard:
    """A process of its own that cancels the run if this one ends before ``dismiss``; there is none on Windows."""

    def __init__(self) -> None:
        self.uid = ""
        self.is_stopped = False
        self.has_served = False  # Jupyter was connected to the kernel
        self._is_dismissed = False
        self._writer = -1
        if sys.platform != "win32":
            reader, self._writer = os.pipe()
            if os.fork():
                os.close(reader)
            else:
                os.close(self._writer)
                _wait_and_exit(reader)

    def watch(self, uid: str) -> None:
        self.uid = uid
        self._write(uid.encode("ascii") + b"\n")

    def dismiss(self) -> None:
        """The kernel has ended, and its run ends."""
        self._is_dismissed = True
        self._write(b"over\n")

    def cancel(self) -> None:
        """End the run now, if the kernel has not ended."""
        if self.uid and not self._is_dismissed:
            _cancel(self.uid)
        self.dismiss()

    def stop(self, _number: int, _frame: object) -> None:
        """For SIGTERM: this process is to end."""
        self.is_stopped = True

    def _write(self, line: bytes) -> None:
        if self._writer >= 0:
            os.write(self._writer, line)


def _wait_and_exit(reader: int) -> None:
    try:
        if sys.platform != "win32":
            os.setsid()  # Jupyter kills the group of the process that it started
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        with open(reader, encoding="ascii") as source:
            lines = source.read().split()
        if len(lines) == 1:
            _cancel(lines[0])
    finally:
        os._exit(0)


def _cancel(uid: str) -> None:
    home = open_home()
    if lifecycle.state_of(runs.read(home, uid).events) in lifecycle.FINAL:
        return
    try:
        stop.cancel(home, uid, by=_BY)
    except HoldfastError:
        return  # the request is recorded, and the kernel ends by itself without a client
