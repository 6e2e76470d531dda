"""Carries connections between two machines over a link that may break: nothing is lost, and nothing arrives twice.

Both ends number what they send and keep it until the other end has it. A new link begins with what each end expects
next. So a connection at either end lasts while there is no link; what is written to it waits.
"""

import collections
import itertools
import json
import selectors
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Optional, Tuple

_FRAME = struct.Struct("<BIQI")  # kind, connection, number (of HELLO and ACK: the one expected next), length
HELLO, ACK, OPEN, DATA, CLOSE, MESSAGE = range(6)
_BLOCK = 256 * 1024
_BEAT_S = 2.0
_LARGEST = 64 * 1024 * 1024  # bytes of one frame
_MOST_KEPT = 16 * 1024 * 1024  # bytes that one end keeps for the other before it stops reading
_MOST_REFUSALS = 256 * 1024  # frames kept for the other before a connection that it opens in vain breaks the link


class Broken(Exception):
    """The other end does not keep to the protocol."""


class _Buffered:
    """A socket that is written to without waiting."""

    def __init__(self, connection: "socket.socket") -> "None":
        connection.setblocking(False)
        self.socket = connection
        self.waiting = bytearray()
        self.is_ending = False  # to be closed when all is written

    def flush(self) -> "None":
        try:
            while self.waiting:
                del self.waiting[: self.socket.send(memoryview(self.waiting)[:_BLOCK].tobytes())]
        except (BlockingIOError, InterruptedError):
            pass

    def read(self) -> "Optional[bytes]":
        """None where nothing has come, empty at the end."""
        try:
            return self.socket.recv(_BLOCK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""


class Tunnel:
    """``connect`` makes the connection that the other end opened, by its channel; ``on_message`` gets its messages."""

    def __init__(
        self, connect: "Callable[[int], Optional[socket.socket]]", on_message: "Callable[[Dict[str, Any]], None]"
    ) -> "None":
        self._connect = connect
        self._on_message = on_message
        self._selector = selectors.DefaultSelector()
        self._connections: "Dict[int, _Buffered]" = {}
        self._ids = itertools.count(1)
        self._kept: "Deque[Tuple[int, bytes]]" = collections.deque()
        self._kept_bytes = 0
        self._next_number = 0
        self._expected = 0
        self._link: "Optional[_Buffered]" = None
        self._is_greeted = False
        self._received = bytearray()
        self._beat_at = 0.0
        self.last_heard = time.monotonic()

    @property
    def is_attached(self) -> "bool":
        return self._link is not None

    @property
    def is_settled(self) -> "bool":
        """Whether the other end has everything."""
        return not self._kept

    def attach(self, link: "socket.socket") -> "None":
        """Use this link from now on."""
        self.detach()
        self._link = _Buffered(link)
        self._link.waiting += _FRAME.pack(HELLO, 0, self._expected, 0)

    def detach(self) -> "None":
        if self._link is not None:
            self._drop(self._link)
        self._link = None
        self._is_greeted = False
        self._received = bytearray()

    def listen(self, listener: "socket.socket", accept: "Callable[[socket.socket], None]") -> "None":
        """``accept`` is called with each connection to the listener."""
        listener.setblocking(False)

        def take() -> "None":
            try:
                connection = listener.accept()[0]
            except OSError:
                return  # it was closed before it was accepted
            accept(connection)

        self._selector.register(listener, selectors.EVENT_READ, take)

    def open(self, channel: "int", connection: "socket.socket") -> "None":
        """Carry a connection to the other end, which connects it by its channel."""
        number = next(self._ids)
        self._add(number, connection)
        self._send(OPEN, number, bytes([channel]))

    def send_message(self, message: "Dict[str, Any]") -> "None":
        self._send(MESSAGE, 0, json.dumps(message).encode("ascii"))

    def beat(self) -> "None":
        """Now and then, say that this end is there; the other end sees it in ``last_heard``."""
        if self._link is not None and self._is_greeted and time.monotonic() > self._beat_at:
            self._beat_at = time.monotonic() + _BEAT_S
            self._link.waiting += _FRAME.pack(ACK, 0, self._expected, 0)

    def turn(self, timeout: "float") -> "None":
        """Do what can be done now, or becomes possible within the timeout."""
        self._set_events()
        for key, events in self._selector.select(timeout):
            if key.fileobj.fileno() < 0:  # type: ignore[union-attr]
                continue  # closed by what came before it in this turn
            if events & selectors.EVENT_READ:
                key.data()
        self._flush()

    def _set_events(self) -> "None":
        """Nothing is read that could not be kept, nor from a link whose data a connection does not take."""
        is_full = self._kept_bytes > _MOST_KEPT
        is_behind = any(len(buffered.waiting) > _MOST_KEPT for buffered in self._connections.values())
        for buffered in list(self._connections.values()):
            self._watch(buffered, is_read=not is_full and not buffered.is_ending)
        if self._link is not None:
            self._watch(self._link, is_read=not is_behind)

    def _watch(self, buffered: "_Buffered", is_read: "bool") -> "None":
        events = (selectors.EVENT_READ if is_read else 0) | (selectors.EVENT_WRITE if buffered.waiting else 0)
        key = self._selector.get_map().get(buffered.socket)
        if key is not None and key.events == events:
            return
        if key is not None:
            self._selector.unregister(buffered.socket)
        if events:
            self._selector.register(buffered.socket, events, self._reader(buffered))

    def _reader(self, buffered: "_Buffered") -> "Callable[[], None]":
        if buffered is self._link:
            return self._read_link
        return lambda: self._read_connection(buffered)

    def _add(self, number: "int", connection: "socket.socket") -> "None":
        self._connections[number] = _Buffered(connection)

    def _read_connection(self, buffered: "_Buffered") -> "None":
        number = next((key for key, value in self._connections.items() if value is buffered), None)
        block = buffered.read()
        if block is None or number is None:
            return
        if block:
            self._send(DATA, number, block)
        else:
            self._send(CLOSE, number, b"")
            self._close(number)

    def _read_link(self) -> "None":
        block = self._link.read() if self._link is not None else None
        if block is None:
            return
        if not block:
            self.detach()
            return
        self._received += block
        self.last_heard = time.monotonic()
        before = self._expected
        try:
            self._take_frames()
        except Broken:
            self.detach()
        if self._expected != before and self._link is not None:
            self._link.waiting += _FRAME.pack(ACK, 0, self._expected, 0)

    def _take_frames(self) -> "None":
        while len(self._received) >= _FRAME.size:
            kind, connection, number, length = _FRAME.unpack_from(self._received)
            if length > _LARGEST or kind > MESSAGE:
                raise Broken
            end = _FRAME.size + length
            if len(self._received) < end:
                return
            payload = bytes(self._received[_FRAME.size : end])
            del self._received[:end]
            if kind in (HELLO, ACK):
                self._forget(number)
                if kind == HELLO:
                    self._greet()
                continue
            if number != self._expected:
                raise Broken
            self._expected += 1
            self._handle(kind, connection, payload)

    def _forget(self, number: "int") -> "None":
        """The other end has everything before this number."""
        if number > self._next_number:
            raise Broken
        while self._kept and self._kept[0][0] < number:
            self._kept_bytes -= len(self._kept.popleft()[1])

    def _greet(self) -> "None":
        if self._link is not None and not self._is_greeted:
            self._is_greeted = True
            for _, frame in self._kept:
                self._link.waiting += frame

    def _handle(self, kind: "int", number: "int", payload: "bytes") -> "None":
        if kind == MESSAGE:
            self._take_message(payload)
        elif kind == OPEN:
            connection = self._connect(payload[0] if payload else 0)
            if connection is None:
                if len(self._kept) > _MOST_REFUSALS:
                    raise Broken
                self._send(CLOSE, number, b"")
            elif number not in self._connections:
                self._add(number, connection)
        elif number in self._connections:
            if kind == DATA:
                self._connections[number].waiting += payload
            else:
                self._connections[number].is_ending = True

    def _take_message(self, payload: "bytes") -> "None":
        try:
            message = json.loads(payload.decode("ascii"))
        except (ValueError, RecursionError):
            raise Broken from None
        if isinstance(message, dict):
            self._on_message(message)

    def _send(self, kind: "int", connection: "int", payload: "bytes") -> "None":
        frame = _FRAME.pack(kind, connection, self._next_number, len(payload)) + payload
        self._kept.append((self._next_number, frame))
        self._kept_bytes += len(frame)
        self._next_number += 1
        if self._link is not None and self._is_greeted:
            self._link.waiting += frame

    def _flush(self) -> "None":
        for number, buffered in list(self._connections.items()):
            try:
                buffered.flush()
            except OSError:
                self._send(CLOSE, number, b"")
                self._close(number)
                continue
            if buffered.is_ending and not buffered.waiting:
                self._close(number)
        if self._link is not None:
            try:
                self._link.flush()
            except OSError:
                self.detach()

    def _close(self, number: "int") -> "None":
        self._drop(self._connections.pop(number))

    def _drop(self, buffered: "_Buffered") -> "None":
        if buffered.socket in self._selector.get_map():
            self._selector.unregister(buffered.socket)
        buffered.socket.close()
