"""The few calls of the system that a terminal needs; Windows has none of them."""

from __future__ import annotations

import os
import signal
import sys

if sys.platform == "win32":

    def open_pair() -> tuple[int, int]:
        raise NotImplementedError

    def set_size(_descriptor: int, _rows: int, _columns: int) -> None:
        raise NotImplementedError

    def hang_up(_pid: int) -> None:
        raise NotImplementedError

else:

    def open_pair() -> tuple[int, int]:
        """Our end, which is never waited for, and the end of the program."""
        ours, theirs = os.openpty()
        os.set_blocking(ours, False)
        return ours, theirs

    def set_size(descriptor: int, rows: int, columns: int) -> None:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(pid: int) -> None:
        """As closing the window of a terminal does."""
        try:
            os.killpg(pid, signal.SIGHUP)
        except (ProcessLookupError, PermissionError):
            pass
