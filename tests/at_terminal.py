"""Runs a command at a pseudo-terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Desk


def at_terminal(desk: Desk, columns: int, *argv: str, **env: str) -> list[str]:
    """The lines that a command writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pipes: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.STDOUT}
    blocks = []
    with desk.start(*argv, env={"TERM": "xterm", **env}, **pipes):
        os.close(theirs)
        try:
            while block := os.read(ours, 65536):
                blocks.append(block)
        except OSError:  # the terminal was closed
            pass
    os.close(ours)
    return b"".join(blocks).decode().splitlines()
