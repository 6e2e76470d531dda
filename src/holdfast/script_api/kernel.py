"""A Jupyter kernel in a run, as ``python -m holdfast_kernel``.

``serve FOLDER SECONDS SECONDS`` starts ipykernel when the client asks for it and carries the kernel's connections.
``attach FOLDER`` joins stdin and stdout to it. The kernel's channels are sockets in a private folder, not ports.
The kernel outlives the link to the client. It ends when the notebook ends it, when no cell was executed for some time,
or when the client stays away for long.
"""

import importlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
BUSY = "busy"  # a file that is there while a cell is executed
CELLS = "cells"  # a folder: a file of JSON for each cell whose record is on its way to the client
_LINK = "link"
_UNIX = getattr(socket, "AF_UNIX", -1)  # Windows, where this never runs, has none
_TURN_S = 0.25
_ATTACH_S = 5.0
_STARTUP_S = 600.0  # packages may be on a network file system
_GOODBYE_S = 3.0
_FIRST_CLIENT_S = 600.0
_BLOCK = 64 * 1024
_LARGEST_RECORD = 48 * 1024 * 1024  # bytes; a frame of the tunnel has 64 MB
NO_KERNEL = 3  # the exit code of ``attach`` where nothing listens


def main() -> "int":
    verb, folder = sys.argv[1], sys.argv[2]
    if verb == "attach":
        return attach(folder)
    if verb == "kernel":
        return execute(folder)
    try:
        importlib.import_module("ipykernel")
    except ImportError as error:
        sys.stderr.write("a kernel needs ipykernel in the environment of the run, %s\n" % sys.executable)
        sys.stderr.write("ModuleNotFoundError: No module named 'ipykernel' (%s)\n" % error)
        return 1
    os.mkdir(folder, 0o700)  # an error where there is one: it would be another user's
    try:
        return _Server(folder, float(sys.argv[3]), float(sys.argv[4])).serve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Server:
    """``client_s``: how long the kernel waits for a client; ``idle_s``: for the next cell, without end if 0."""

    def __init__(self, folder: "str", client_s: "float", idle_s: "float") -> "None":
        self._folder = folder
        self._client_s = client_s
        self._idle_s = idle_s
        self._kernel: "Optional[subprocess.Popen[bytes]]" = None
        module = importlib.import_module("holdfast.script_api.tunnel" if __package__ else "_holdfast_tunnel")
        self._tunnel = module.Tunnel(self._connect, self._take)
        os.mkdir(os.path.join(folder, CELLS))
        self._listener = socket.socket(_UNIX)
        self._listener.bind(os.path.join(folder, _LINK))
        self._listener.listen(8)
        self._tunnel.listen(self._listener, self._tunnel.attach)
        self._last_cell = time.monotonic()

    def serve(self) -> "int":
        while True:
            self._tunnel.turn(_TURN_S)
            self._send_records()
            code = None if self._kernel is None else self._kernel.poll()
            if code is not None:
                return self._finish(128 - code if code < 0 else code, "")
            reason = self._reason_to_end()
            if reason:
                sys.stderr.write("%s\n" % reason)
                self._stop()
                return self._finish(0, reason)

    def _take(self, message: "Dict[str, Any]") -> "None":
        if self._kernel is not None or "key" not in message:
            return
        ports = {name + "_port": number for number, name in enumerate(CHANNELS, 1)}
        connection = dict(message, transport="ipc", ip=os.path.join(self._folder, "kernel"), **ports)
        path = os.path.join(self._folder, "kernel.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            json.dump(connection, target)
        self._kernel = subprocess.Popen([sys.executable, "-m", __spec__.name, "kernel", self._folder])
        until = time.monotonic() + _STARTUP_S
        for number in range(1, len(CHANNELS) + 1):
            while not self._is_listening(number) and self._kernel.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
        if self._kernel.poll() is None:
            self._tunnel.send_message({"started": True})

    def _is_listening(self, channel: "int") -> "bool":
        connection = self._connect(channel - 1)
        if connection is not None:
            connection.close()
        return connection is not None

    def _connect(self, channel: "int") -> "Optional[socket.socket]":
        connection = socket.socket(_UNIX)
        try:
            connection.connect(os.path.join(self._folder, "kernel-%d" % (channel + 1)))
        except OSError:
            connection.close()
            return None
        return connection

    def _send_records(self) -> "None":
        """Cells can write there too: what is not a record is removed, and the kernel goes on."""
        folder = os.path.join(self._folder, CELLS)
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
        except OSError:
            return
        for name in names:
            record = _read_record(os.path.join(folder, name))
            if record is not None:
                self._tunnel.send_message({"cell": record})

    def _reason_to_end(self) -> "str":
        now = time.monotonic()
        if self._kernel is None or os.path.exists(os.path.join(self._folder, BUSY)):
            self._last_cell = now
        # A first client is still on its way: the target may be slow to answer.
        patience = self._client_s if self._kernel is not None else max(self._client_s, _FIRST_CLIENT_S)
        if now - self._tunnel.last_heard > patience:
            return "the client has been away for %d s: the kernel ends" % self._client_s
        if self._idle_s and now - self._last_cell > self._idle_s:
            return "no cell was executed for %d s: the kernel ends" % self._idle_s
        return ""

    def _stop(self) -> "None":
        if self._kernel is None:
            return
        self._kernel.terminate()
        try:
            self._kernel.wait(10)
        except subprocess.TimeoutExpired:
            self._kernel.kill()

    def _finish(self, code: "int", reason: "str") -> "int":
        """The last messages of the kernel reach a client that is there."""
        self._tunnel.turn(_TURN_S)
        self._send_records()
        self._tunnel.send_message({"ended": code, "reason": reason})
        until = time.monotonic() + _GOODBYE_S
        while self._tunnel.is_attached and not self._tunnel.is_settled and time.monotonic() < until:
            self._tunnel.turn(0.05)
        return code


def _read_record(path: "str") -> "Optional[Dict[str, Any]]":
    """The record of that file, which is removed; None where it is none."""
    try:
        text = ""
        if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST_RECORD:
            with open(path, encoding="ascii") as source:
                text = source.read()
        os.unlink(path)
        record = json.loads(text)
        return record if isinstance(record, dict) else None
    except (OSError, ValueError, RecursionError):
        return None


def attach(folder: "str") -> "int":
    """Join stdin and stdout to the kernel of that folder until one of them ends."""
    connection = socket.socket(_UNIX)
    until = time.monotonic() + _ATTACH_S
    while True:
        try:
            if os.stat(folder).st_uid == getattr(os, "getuid", int)():
                connection.connect(os.path.join(folder, _LINK))
                break
            return NO_KERNEL
        except OSError:
            if time.monotonic() > until:
                return NO_KERNEL
            time.sleep(0.02)
    try:
        while _pass_on(connection):
            pass
    except OSError:
        pass  # one of the two is gone
    return 0


def _pass_on(connection: "socket.socket") -> "bool":
    """Whatever comes from either side, to the other; whether both are still there."""
    for readable in select.select([0, connection.fileno()], [], [])[0]:
        block = os.read(readable, _BLOCK)
        if not block:
            return False
        if readable == 0:
            connection.sendall(block)
        else:
            view = memoryview(block)
            while view:
                view = view[os.write(1, view) :]
    return True


def execute(folder: "str") -> "int":
    """ipykernel, in a process of its own."""
    app = importlib.import_module("ipykernel.kernelapp").IPKernelApp.instance()
    app.log_connection_info = lambda: None  # how other clients connect, which they cannot
    app.initialize(["-f", os.path.join(folder, "kernel.json")])
    cells = importlib.import_module("holdfast.script_api.cell_history" if __package__ else "_holdfast_cells")
    cells.install(app.shell, cells.Outbox(os.path.join(folder, CELLS)))
    busy = os.path.join(folder, BUSY)
    app.shell.events.register("pre_execute", lambda: os.close(os.open(busy, os.O_CREAT, 0o600)))
    app.shell.events.register("post_execute", lambda: _remove(busy))
    app.start()
    return 0


def _remove(path: "str") -> "None":
    if os.path.exists(path):
        os.unlink(path)


if __name__ == "__main__":
    sys.exit(main())
