"""This machine as a host."""

from __future__ import annotations

import os
import sys

from holdfast.errors import ConfigError
from holdfast.ports import Stream


class LocalHost:
    """Starts commands as children in a process group of their own, so that Ctrl-C reaches the client alone."""

    def run(self, argv: tuple[str, ...]) -> Stream:
        if sys.platform == "win32":
            raise ConfigError("Windows itself cannot be a target", hint="use WSL, or a remote target")
        child_in, stdin = os.pipe()
        stdout, child_out = os.pipe()
        stderr, child_err = os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, child_in, 0),
            (os.POSIX_SPAWN_DUP2, child_out, 1),
            (os.POSIX_SPAWN_DUP2, child_err, 2),
        ]
        try:
            pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions, setpgroup=0)
        except OSError:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
            raise
        finally:
            for fd in (child_in, child_out, child_err):
                os.close(fd)
        return Stream(pid, stdin, stdout, stderr)

    def close(self) -> None:
        """Nothing is held open between commands."""
