"""Runs the web server: its socket, the browser that it opens, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.errors import UsageError
from holdfast.present.terminal import is_tty, show
from holdfast.store.index.index import Index
from holdfast.web import keeper, servers
from holdfast.web.app import Workbench, make_app
from holdfast.web.gate import SIGN_IN, Gate
from holdfast.web.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.home import Home

_HEADER_SECONDS = 10.0
_HEADER_BYTES = 65_536
_LONGEST_SOCKET_PATH = 100
_OPENING = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Holdfast</title>
<form method="post" action="{action}"><input type="hidden" name="code" value="{code}"><input type="hidden" name="next"
value="{next}"><button>Open Holdfast</button></form><script>document.forms[0].submit()</script>
"""


class Options(NamedTuple):
    folder: str
    port: int | None = None
    socket: bool = False
    read_only: bool = False
    terminal: bool = False
    open_browser: bool = True


def serve(home: Home, options: Options) -> int:
    name = servers.host_name(home)
    with contextlib.ExitStack() as stack:
        listener = _unix_socket(home, stack) if options.socket else _tcp_socket(home, options.port)
        where = listener.getsockname() if options.socket else f"http://{name}:{listener.getsockname()[1]}"
        opening = os.path.join(servers.folder(home), f"open-{os.getpid()}.html")
        stack.callback(_remove, opening)
        stack.enter_context(servers.Registered(home, {"address": where, "read_only": options.read_only}))
        sessions = Sessions()

        def run(is_first: bool) -> None:
            Index(home).close()  # a large index is made by several processes: before there are threads
            if is_first:
                _tell(name, where, sessions, options, opening)
            if is_tty(sys.stdin):
                threading.Thread(target=_new_codes, args=(sessions,), daemon=True).start()
            _run(home, name, listener, sessions, options)

        keeper.run(sessions, run)
    return 0


def _run(home: Home, name: str, listener: socket.socket, sessions: Sessions, options: Options) -> None:
    workbench = Workbench(home, options.folder, sessions, read_only=options.read_only, has_prompts=options.terminal)
    gate = Gate(make_app(workbench), (name,), sessions, read_only=options.read_only)
    server = uvicorn.Server(
        uvicorn.Config(
            gate,
            http=_Protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
        )
    )
    workbench.is_stopping = lambda: server.should_exit
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn handles them, and raises them again at the end
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listener])


class _Protocol(H11Protocol):
    """Closes a connection that does not complete the headers of its first request in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEADER_SECONDS, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """An upgrade is answered as an ordinary request; nothing is wrong with this server."""


def _tcp_socket(home: Home, port: int | None) -> socket.socket:
    """On the loopback only. Without ``--port`` the port of the last time if it is free, so that addresses stay."""
    known = servers.preferences(home).get("port", "0")
    wanted = [port] if port is not None else [int(known) if known.isascii() and known.isdecimal() else 0, 0]
    for number in wanted:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", number))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if number != wanted[-1]:
                continue
            hint = "use another --port, or none: a free one is chosen"
            raise UsageError(f"port {number} cannot be used", answer=str(error.strerror), hint=hint) from error
        servers.prefer(home, port=str(listener.getsockname()[1]))
        return listener
    raise AssertionError


def _unix_socket(home: Home, stack: contextlib.ExitStack) -> socket.socket:
    if sys.platform == "win32":
        raise UsageError("Windows has no sockets of this kind", where="--socket", hint="use --port")
    import tempfile

    path = os.path.join(servers.folder(home), f"{os.getpid()}.sock")
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        parent = min(tempfile.gettempdir(), "/tmp", key=len)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-ui-", dir=parent))
        path = os.path.join(folder, "sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
    finally:
        os.umask(before)
    stack.callback(_remove, path)
    listener.listen(128)
    return listener


def _tell(name: str, where: str, sessions: Sessions, options: Options, opening: str) -> None:
    """Print where the pages are, and open the browser signed in."""
    if options.socket:
        from shlex import quote

        login = f"{os.environ.get('USER', 'USER')}@{socket.gethostname()}"
        sys.stdout.write(f"socket   {show(where)}\n")
        sys.stdout.write(f"forward  ssh -N -L {show(quote(f'8080:{where}'))} {show(quote(login))}\n")
        sys.stdout.write(f"address  http://{name}:8080/\n")
    else:
        sys.stdout.write(f"address  {where}/\n")
    if options.open_browser and _open_browser(where, sessions, opening):
        sys.stdout.write("the browser opens; Ctrl-C ends the server\n")
    else:
        sys.stdout.write(f"code     {sessions.new_code()}\n")
    sys.stdout.flush()
    if is_tty(sys.stdin):
        sys.stderr.write("Enter prints a new sign-in code, good for one sign-in within a minute\n")


def _open_browser(where: str, sessions: Sessions, path: str) -> bool:
    """The code travels in a file that only its owner can read: arguments of a program can be read by all users."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        sys.stderr.write("no browser was found; open the address and type the code\n")
        return False
    page = _OPENING.format(action=escape(f"{where}{SIGN_IN}"), code=escape(sessions.new_code()), next="/")
    with open(path, "w", encoding="utf-8", opener=lambda file, flags: os.open(file, flags, 0o600)) as target:
        target.write(page)
    # A browser of the console waits until it is left, and the server must answer it meanwhile.
    threading.Thread(target=browser.open, args=(f"file://{path}",), daemon=True).start()
    return True


def _new_codes(sessions: Sessions) -> None:
    for _ in _lines():
        sys.stdout.write(f"code     {sessions.new_code()}\n")
        sys.stdout.flush()


def _lines() -> Iterator[str]:
    with contextlib.suppress(OSError, ValueError):
        yield from sys.stdin


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
