"""Runs the server in a child process, and starts another one if it is killed: the socket and the sessions stay.

The parent holds the listening socket, so that no other program gets the port meanwhile and none is sent a cookie.
Sessions are in its memory only: when the command ends, they end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from holdfast.errors import ResourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.web.sessions import Sessions

_STOPS = (signal.SIGINT, signal.SIGTERM)
_SOON_S = 5.0
_MOST_IN_A_ROW = 10  # servers that are killed so soon after their start


def run(sessions: Sessions, serve: Callable[[bool], None]) -> None:
    """``serve`` runs a server until it is stopped; it is told whether it is the first one."""
    if sys.platform == "win32":
        serve(True)
    else:
        _keep(sessions, serve)


if sys.platform != "win32":

    def _keep(sessions: Sessions, serve: Callable[[bool], None]) -> None:
        early, is_first = 0, True
        while True:
            began = time.monotonic()
            killed_by = _Child(sessions, serve, is_first).wait()
            if not killed_by:
                return
            early = early + 1 if time.monotonic() - began < _SOON_S else 0
            name = signal.Signals(killed_by).name
            if early == _MOST_IN_A_ROW:
                hint = "is there enough memory? dmesg names processes that the system killed"
                raise ResourceError(f"the web server was killed by {name} again and again", hint=hint)
            sys.stderr.write(f"the web server was killed by {name}; started again, open pages continue\n")
            is_first = False

    class _Child:
        def __init__(self, sessions: Sessions, serve: Callable[[bool], None], is_first: bool) -> None:
            self._sessions = sessions
            self._is_stopping = False
            ours, theirs = socket.socketpair()
            sys.stdout.flush()
            self._pid = os.fork()
            if self._pid == 0:
                ours.close()
                _be_child(sessions, serve, is_first, theirs)
            theirs.close()
            self._news = ours
            for number in _STOPS:
                signal.signal(number, self._stop)

        def wait(self) -> int:
            """The signal that killed the server; 0 where it ended as it was told to, or by itself."""
            with self._news, self._news.makefile("r", encoding="ascii") as lines:
                for line in lines:
                    self._sessions.tokens = json.loads(line)
            _, status = os.waitpid(self._pid, 0)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise SystemExit(os.WEXITSTATUS(status))  # its error has been printed
            is_killed = os.WIFSIGNALED(status) and not self._is_stopping
            return os.WTERMSIG(status) if is_killed else 0

        def _stop(self, *_: object) -> None:
            self._is_stopping = True
            os.kill(self._pid, signal.SIGTERM)

    def _be_child(sessions: Sessions, serve: Callable[[bool], None], is_first: bool, parent: socket.socket) -> None:
        code = 1
        try:
            for number in _STOPS:  # the server handles them when it runs
                signal.signal(number, signal.SIG_DFL)
            sessions.changed = lambda tokens: parent.sendall(json.dumps(tokens).encode() + b"\n")
            threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
            serve(is_first)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _end_with(parent: socket.socket) -> None:
        """The parent sends nothing; what is received is its end."""
        parent.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)
