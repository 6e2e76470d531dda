"""Forwards a local port to a port on a target's loopback interface: each connection is one stream of the host.

This process listens itself, on 127.0.0.1 only. So other forwardings are not touched, nothing stays open when this
process ends, and a link that was down affects only connections made meanwhile.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading

from holdfast.errors import HoldfastError, UsageError
from holdfast.record import Record
from holdfast.runner.decoding import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import Host, Stream

HERE = "127.0.0.1"
_NEXT = 100
_BLOCK = 256 * 1024


class Lane(Record):
    there: int
    here: int
    listener: socket.socket


def open_lane(there: int, wanted: int) -> Lane:
    """On the wanted port, or the next one that is free."""
    for port in [*range(wanted, min(wanted + _NEXT, 65536)), 0]:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HERE, port))
            listener.listen(64)
            return Lane(there, listener.getsockname()[1], listener)
        except OSError:
            listener.close()
    raise UsageError("no local port is free", where=HERE)


def serve(host: Host, lanes: list[Lane], tell: Callable[[str], None]) -> None:
    """Serve until interrupted. ``tell`` is called with the reason if a connection fails."""
    lane_of = {lane.listener: lane for lane in lanes}
    while True:
        for listener in select.select(list(lane_of), [], [])[0]:
            connection, _ = listener.accept()
            arguments = (host, lane_of[listener].there, connection, tell)
            threading.Thread(target=_connect, args=arguments, daemon=True).start()


def _connect(host: Host, port: int, connection: socket.socket, tell: Callable[[str], None]) -> None:
    with connection:
        try:
            stream = host.reach_port(port)
        except HoldfastError as error:
            tell(str(error))
            return
        if stream is None:
            return
        threading.Thread(target=_send, args=(connection, stream), daemon=True).start()
        complaint = _receive(connection, stream)
        _shut(connection, socket.SHUT_RDWR)  # wakes up the one who sends
    if complaint:
        meant = host.meaning(complaint)
        tell(meant.what if meant is not None else f"no service responds on its port {port} ({complaint})")


def _send(connection: socket.socket, stream: Stream) -> None:
    try:
        while block := connection.recv(_BLOCK):
            view = memoryview(block)
            while view:
                view = view[os.write(stream.stdin, view) :]
    except OSError:
        pass  # one of the two is gone, which the one who receives finds out as well
    os.close(stream.stdin)


def _receive(connection: socket.socket, stream: Stream) -> str:
    """What comes back, to its end; what the host complains of where nothing came."""
    came = False
    try:
        while block := os.read(stream.stdout, _BLOCK):
            came = True
            connection.sendall(block)
    except OSError:
        pass
    os.close(stream.stdout)
    _shut(connection, socket.SHUT_WR)
    complaint = b""
    while block := os.read(stream.stderr, 4096):
        complaint = (complaint + block)[-4096:]
    os.close(stream.stderr)
    if sys.platform != "win32":
        os.waitpid(stream.pid, 0)
    return "" if came else " ".join(readable(complaint).split())


def _shut(connection: socket.socket, how: int) -> None:
    try:
        connection.shutdown(how)
    except OSError:
        return  # it is shut already
