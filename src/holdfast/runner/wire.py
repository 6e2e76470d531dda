"""Frames between client and runner: a big-endian u32, that many bytes of JSON, then the payload the JSON announces.

Client and runner import this module. Every frame is checked before it is used: the client reads frames from machines
that it does not control.
"""

import os
import struct

from . import json_text

MYPY = False
if MYPY:
    from typing import Callable

PROTOCOL = 1
MAX_HEADER = 16 * 1024 * 1024
MAX_PAYLOAD = 1024 * 1024
MAX_DEPTH = 64

_LENGTH = struct.Struct(">I")


class BadFrame(Exception):
    """The other side sent something that is no frame."""


class Closed(Exception):
    """The other side went away."""


def dumps(value: "object") -> "bytes":
    """ASCII JSON in one line, keys as given."""
    return json_text.dumps(value).encode("ascii")


def pack(header: "dict[str, object]", payload: "bytes" = b"") -> "bytes":
    if payload:
        header = dict(header, length=len(payload))
    head = dumps(header)
    return _LENGTH.pack(len(head)) + head + payload


def send(fd: "int", header: "dict[str, object]", payload: "bytes" = b"") -> "None":
    write_all(fd, pack(header, payload))


def write_all(fd: "int", data: "bytes") -> "None":
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BrokenPipeError as error:
            raise Closed("the other side closed the connection") from error


class FrameReader:
    """Reads frames from a file descriptor, keeping what belongs to the next one.

    ``before_read`` is called before each read with the number of bytes that the last one brought; it may wait or raise.
    """

    def __init__(self, fd: "int", before_read: "Callable[[int], None] | None" = None) -> "None":
        self.fd = fd
        self._before_read = before_read
        self._received = 0
        self._buffer = bytearray()

    def line(self, limit: "int" = 65536) -> "bytes":
        """Everything up to the next newline; the newline is taken and left out."""
        while True:
            cut = self._buffer.find(b"\n")
            if cut >= 0:
                taken = bytes(self._buffer[:cut])
                del self._buffer[: cut + 1]
                return taken
            if len(self._buffer) > limit:
                raise BadFrame("no line end within %d bytes" % limit)
            self._fill()

    def frame(self) -> "tuple[dict[str, object], bytes]":
        (size,) = _LENGTH.unpack(self._take(_LENGTH.size))
        if size > MAX_HEADER:
            raise BadFrame("a header of %d bytes was announced" % size)
        header = _header(self._take(size))
        length = header.get("length", 0)
        if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length <= MAX_PAYLOAD:
            raise BadFrame("a payload of %r bytes was announced" % (length,))
        return header, self._take(length)

    def pending(self) -> "bool":
        return bool(self._buffer)

    def _take(self, size: "int") -> "bytes":
        while len(self._buffer) < size:
            self._fill()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _fill(self) -> "None":
        if self._before_read is not None:
            self._before_read(self._received)
        data = os.read(self.fd, 262144)
        if not data:
            raise Closed("the other side closed the connection")
        self._received = len(data)
        self._buffer += data


def _header(data: "bytes") -> "dict[str, object]":
    try:
        header = json_text.loads(data.decode("utf-8"), json_text.Finite)
    except (ValueError, RecursionError) as error:
        raise BadFrame("a header that is not JSON: %r" % data[:80]) from error
    if not isinstance(header, dict):
        raise BadFrame("a header that is not an object: %r" % data[:80])
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_deeper(header, MAX_DEPTH):
        raise BadFrame("a header nested deeper than %d levels" % MAX_DEPTH)
    return header


def _is_deeper(value: "object", levels: "int") -> "bool":
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return bool(items) and (not levels or any(_is_deeper(item, levels - 1) for item in items))
