"""The version of a Spark Connect server, by one call of gRPC over a plain socket. A submit reads it too.

Spark's own client takes a second to import and waits ten minutes for a server; this asks once and needs no package.
"""

import importlib
import os
import re
import socket
import struct
import time
import uuid
from urllib.parse import unquote

MYPY = False
if MYPY:
    from ..capture import protobuf as _protobuf
else:
    _protobuf = importlib.import_module(
        "holdfast.script_api.capture.protobuf" if __name__.startswith("holdfast.") else "_holdfast_capture.protobuf"
    )

PORT = 15002
_ANSWER_S = 5.0  # the first call of a server takes longer than others
_LARGEST = 1 << 16
_SERVER = re.compile(r"sc://\[?([^\]/;,]+?)\]?(?::(\d+))?(?:/(;.*)?)?\Z", re.DOTALL)
_TOO_NEW = (
    "the Spark Connect server %s has Spark %s, and the script has PySpark %s: a server does not know newer clients; "
    "install pyspark[connect]==%s in the script's environment"
)
_SERVICE = "/spark.connect.SparkConnectService/"
_USED = ("token", "use_ssl", "user_id", "user_agent", "session_id")  # all other parameters are sent as headers
# HTTP/2: types and flags of frames.
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK, _END_STREAM, _END_HEADERS, _PADDED = 1, 1, 4, 8
# Fields of Spark's messages, the same in every version.
_SESSION, _USER, _ASK_VERSION, _ANSWER_VERSION = 1, 2, 10, 8


def version(server: "str", token: "str" = "") -> "str":
    """``4.3.0``; empty where the server does not answer, wants another token, or is no Connect server.

    A submit gives no token: that of its own environment is not for the servers of a project.
    """
    match = _SERVER.match(server)
    if match is None:
        return ""
    host, port = match.group(1), int(match.group(2) or PORT)
    parameters = dict(part.split("=", 1) for part in (match.group(3) or "").split(";") if "=" in part)
    parameters = {name: unquote(value) for name, value in parameters.items()}
    try:
        connection = _Connection(host, port, dict({"token": token}, **parameters))
    except (OSError, ValueError):
        return ""
    try:
        return connection.version()
    except (OSError, ValueError, IndexError, struct.error):
        return ""
    finally:
        connection.close()


def is_newer(mine: "str", theirs: "str") -> "bool":
    """Whether a client is too new for a server: Spark's servers know what older clients send, not the reverse."""
    pairs = [re.match(r"(\d{1,9})\.(\d{1,9})", text) for text in (mine, theirs)]
    numbers = [(int(pair.group(1)), int(pair.group(2))) for pair in pairs if pair is not None]
    return len(numbers) == 2 and numbers[0] > numbers[1]


def complaint(server: "str", mine: "str", theirs: "str" = "") -> "str":
    """What is wrong with the run's client of version ``mine``; ``theirs`` is asked of the server if it is not known."""
    token = os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN", "")
    theirs = (theirs or version(server, token)) if mine else ""
    if not is_newer(mine, theirs):
        return ""
    return _TOO_NEW % (server.split("/;")[0], theirs, mine, theirs)


class _Connection(object):
    """One session on a server, which is released again; no more than two calls."""

    def __init__(self, host: "str", port: "int", parameters: "dict[str, str]") -> "None":
        token = parameters["token"]
        use_tls = parameters.get("use_ssl", "").lower() == "true"
        is_plain = not use_tls and (not token or host == "localhost")  # as Spark's client decides
        own = [(name, value) for name, value in parameters.items() if name not in _USED]
        own += [("authorization", "Bearer %s" % token)] if token else []
        authority = ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)
        fixed = [(":method", "POST"), (":scheme", "http" if is_plain else "https"), (":authority", authority)]
        fixed += [("content-type", "application/grpc"), ("te", "trailers")]
        self._headers = b"".join(map(_header, fixed + own))
        user = _field(1, parameters.get("user_id", "").encode("utf-8"))
        self._who = _field(_SESSION, str(uuid.uuid4()).encode("ascii")) + _field(_USER, user)
        self._deadline = time.time() + _ANSWER_S
        self._stream = -1
        self._socket = socket.create_connection((host, port), timeout=_ANSWER_S)
        if not is_plain:
            self._socket = _with_tls(self._socket, host)
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))

    def version(self) -> "str":
        answer = self._call("AnalyzePlan", self._who + _field(_ASK_VERSION, b""))
        text = _value(_value(answer, _ANSWER_VERSION), 1).decode("ascii", "replace")
        if answer:
            self._send("ReleaseSession", self._who)
        return text if re.match(r"\d+\.\d+[\w.+-]*\Z", text) else ""

    def close(self) -> "None":
        self._socket.close()

    def _call(self, name: "str", message: "bytes") -> "bytes":
        """The server's message; empty where it answers with an error."""
        self._send(name, message)
        received = b""
        while len(received) < _LARGEST:
            kind, flags, stream, payload = self._next_frame()
            if kind == _GOAWAY or (kind == _RESET and stream == self._stream):
                return b""
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                self._socket.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
            if kind == _DATA and stream == self._stream:
                received += payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload
            if kind in (_DATA, _HEADERS) and stream == self._stream and flags & _END_STREAM:
                break
        if len(received) < 5 or received[0]:  # compressed, although no compression was offered
            return b""
        return received[5 : 5 + struct.unpack(">I", received[1:5])[0]]

    def _send(self, name: "str", message: "bytes") -> "None":
        self._stream += 2
        headers = _header((":path", _SERVICE + name)) + self._headers
        body = b"\0" + struct.pack(">I", len(message)) + message
        self._socket.sendall(
            _frame(_HEADERS, _END_HEADERS, self._stream, headers) + _frame(_DATA, _END_STREAM, self._stream, body)
        )

    def _next_frame(self) -> "tuple[int, int, int, bytes]":
        high, low, kind, flags, stream = struct.unpack(">BHBBI", self._receive(9))
        size = high << 16 | low
        if size > _LARGEST:
            raise ValueError("a frame that is too large")
        return kind, flags, stream & 0x7FFFFFFF, self._receive(size)

    def _receive(self, size: "int") -> "bytes":
        data = b""
        while len(data) < size:
            self._socket.settimeout(max(0.01, self._deadline - time.time()))
            block = self._socket.recv(size - len(data))
            if not block:
                raise ValueError("the server closed the connection")
            data += block
        return data


def _with_tls(plain: "socket.socket", host: "str") -> "socket.socket":
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain, server_hostname=host)


def _frame(kind: "int", flags: "int", stream: "int", payload: "bytes") -> "bytes":
    return struct.pack(">BHBBI", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def _header(pair: "tuple[str, str]") -> "bytes":
    """As HPACK has it without its tables: a literal that is not to be indexed, name and value as they are."""
    name, value = pair[0].lower().encode("ascii"), pair[1].encode("utf-8")
    return b"\x10" + _length(name) + name + _length(value) + value


def _length(data: "bytes") -> "bytes":
    if len(data) < 127:
        return bytes(bytearray([len(data)]))
    return b"\x7f" + _varint(len(data) - 127)


def _field(number: "int", value: "bytes") -> "bytes":
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: "int") -> "bytes":
    result = bytearray()
    while number > 127:
        result.append(number & 127 | 128)
        number >>= 7
    result.append(number)
    return bytes(result)


def _value(message: "bytes", wanted: "int") -> "bytes":
    """The field of this number, which is a text or a message; empty where there is none."""
    value = dict(_protobuf.fields(message)).get(wanted, b"")
    return value if isinstance(value, bytes) else b""
