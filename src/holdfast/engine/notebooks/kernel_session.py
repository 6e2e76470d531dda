"""The client of a kernel on a target: the five channels of Jupyter here, and a tunnel to the run of the kernel."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from functools import partial

from holdfast import lifecycle
from holdfast.engine.connection.channel import ASKING
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.runs.exec_command import execute
from holdfast.engine.runs.reconcile import settle
from holdfast.engine.runs.run_target import target_of
from holdfast.errors import ConfigError, HoldfastError, RunFailedError, UnreachableError, UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.script_api.kernel import CHANNELS
from holdfast.script_api.tunnel import Tunnel
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.store.home import Home

_LARGEST = 1 << 20
_TURN_S = 0.1
_PAUSE_S = 0.2
_FOLDER = "/tmp/holdfast-kernel-"  # on the target; short, as names of sockets must be


class Connection(Record):
    """A connection file of Jupyter. ``secrets``: its key and all else that both ends of the channels must know."""

    secrets: dict[str, Any]
    addresses: tuple[Any, ...]
    family: int


def read_connection(path: str) -> Connection:
    try:
        fields = json.loads(untrusted.read_file(path, _LARGEST))
        ip, is_ipc = str(fields.get("ip") or "127.0.0.1"), fields.get("transport") == "ipc"
        ports = [int(fields[f"{name}_port"]) for name in CHANNELS]
        addresses = tuple(f"{ip}-{port}" if is_ipc else (ip, port) for port in ports)
        family = getattr(socket, "AF_UNIX", -1) if is_ipc else socket.AF_INET
        secrets = {name: value for name, value in fields.items() if not name.endswith("_port")}
        return Connection({"key": str(fields["key"]), **secrets}, addresses, family)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what, hint = "this is not a connection file of Jupyter", "Jupyter starts this command itself"
        raise UsageError(what, where=path, answer=str(error), hint=hint) from error


def listeners(connection: Connection) -> list[socket.socket]:
    """The sockets of the five channels on this machine."""
    made = []
    for address in connection.addresses:
        listener = socket.socket(connection.family, socket.SOCK_STREAM)
        if connection.family == socket.AF_INET:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise ConfigError("a port that Jupyter chose is in use", where=str(address), answer=str(error)) from error
        listener.listen(64)
        made.append(listener)
    return made


def command(token: str, client_s: float, idle_s: float) -> tuple[str, ...]:
    """The arguments of the run's Python."""
    return "-m", "holdfast_kernel", "serve", _FOLDER + token, f"{client_s:g}", f"{idle_s:g}"


class KernelSession:
    """``on_cell`` gets the record of each cell."""

    def __init__(
        self, home: Home, uid: str, token: str, connection: Connection, on_cell: Callable[[dict[str, Any]], None]
    ) -> None:
        self._home = home
        self._uid = uid
        self._folder = _FOLDER + token
        self._on_cell = on_cell
        self.has_started = False
        self._sockets: list[socket.socket] = []
        self._ending: dict[str, Any] | None = None
        self._failure: HoldfastError | None = None
        self._links: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._tunnel = Tunnel(lambda _channel: None, self._take)
        self._tunnel.send_message(connection.secrets)

    @property
    def has_ended(self) -> bool:
        """Whether the target has said so."""
        return self._ending is not None

    def serve(
        self, sockets: list[socket.socket], open_line: Callable[..., Line], is_wanted: Callable[[], bool]
    ) -> None:
        """Until the kernel ends, which is an error unless Jupyter asked for it, or until Jupyter is no longer there."""
        self._sockets = sockets
        threading.Thread(target=self._keep_attached, args=(open_line,), daemon=True).start()
        try:
            while self._ending is None:
                self._tunnel.turn(_TURN_S)
                self._tunnel.beat()
                while not self._links.empty():
                    self._tunnel.attach(self._links.get())
                if self._failure is not None:
                    raise self._failure
                if not is_wanted():
                    return
        finally:
            self._is_over.set()
        for _ in range(4):
            self._tunnel.turn(0.05)  # Jupyter gets the last messages, and the target our receipt
        self._raise_unexpected(self._ending)

    def _raise_unexpected(self, ending: dict[str, Any]) -> None:
        if ending.get("ended") or ending.get("reason"):
            what = f"the kernel ended with exit code {ending.get('ended')}"
            hint = "restart the kernel in Jupyter to start a new one"
            raise RunFailedError(what, where=self._run_id(), answer=str(ending.get("reason") or "")[:500], hint=hint)

    def _run_id(self) -> str:
        return str(runs.read(self._home, self._uid).request.get("run_id"))

    def _take(self, message: dict[str, Any]) -> None:
        if "started" in message and not self.has_started:
            self.has_started = True
            # Not before: what Jupyter says to a kernel that never starts is for the one that reports the error.
            for channel, listener in enumerate(self._sockets):
                self._tunnel.listen(listener, partial(self._tunnel.open, channel))
        elif "ended" in message:
            self._ending = message
        elif isinstance(message.get("cell"), dict):
            self._on_cell(message["cell"])

    def _keep_attached(self, open_line: Callable[..., Line]) -> None:
        try:
            run = runs.read(self._home, self._uid)
            line = open_line(self._home, target_of(run.request, self._home.path), patient=True, patience=ASKING)
            try:
                while not self._is_over.is_set():
                    self._attach(line)
            finally:
                line.close()
        except HoldfastError as error:
            self._failure = error
        except Exception as error:
            self._failure = RunFailedError("the tunnel to the kernel ended", answer=f"{type(error).__name__}: {error}")

    def _attach(self, line: Line) -> None:
        """Hold one link to the kernel until it breaks."""
        run = runs.read(self._home, self._uid)
        ours, theirs = socket.socketpair()
        self._links.put(ours)
        argv = (_python(run), "-m", "holdfast_kernel", "attach", self._folder)
        try:
            execute(line.channel, run, argv, theirs.fileno(), lambda stream, block: _pass_on(theirs, stream, block))
        except UnreachableError as error:
            line.again(error)
        except UsageError:
            pass  # it waits in the queue, or has ended, as the look below shows
        finally:
            theirs.shutdown(socket.SHUT_RDWR)  # ends the thread that reads it; the collector closes it
        self._raise_ended()
        self._is_over.wait(_PAUSE_S)

    def _raise_ended(self) -> None:
        settle(self._home, [runs.read(self._home, self._uid)], lambda _message: None)
        run = runs.read(self._home, self._uid)
        state = lifecycle.state_of(run.events)
        if state in lifecycle.FINAL and not self._is_over.is_set():
            raise RunFailedError(f"the run of the kernel ended as {state}", where=self._run_id())


def _python(run: runs.Run) -> str:
    argv = (runs.read_plan(run) or {}).get("argv")
    return str(argv[0]) if isinstance(argv, list) and argv else "python"


def _pass_on(link: socket.socket, stream: int, block: bytes) -> None:
    if stream == 1:
        try:
            link.sendall(block)
        except OSError:
            return  # a newer link has taken its place
    else:
        os.write(2, block)
