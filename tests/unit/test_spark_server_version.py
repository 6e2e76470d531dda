"""The one call that asks a Spark Connect server for its version, against servers that answer in odd ways.

tests/spark/test_connect.py asks a real server.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from holdfast.script_api.spark import server_version
from lab.server import write_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def message(text: bytes) -> bytes:
    """An answer of AnalyzePlan: the session's id, and a version."""
    inner = b"\x0a" + bytes([len(text)]) + text
    body = b"\x0a\x02id\x42" + bytes([len(inner)]) + inner
    return b"\0" + struct.pack(">I", len(body)) + body


SETTINGS, ACK, PING = frame(4, 0, 0, b""), frame(4, 1, 0, b""), frame(6, 0, 0, b"12345678")
HEADERS, TRAILERS = frame(1, 4, 1, b"\x88"), frame(1, 5, 1, b"\x88")
ANSWER = message(b"4.0.5")
PADDED = frame(0, 8, 1, b"\3" + ANSWER + b"\0\0\0")


@contextmanager
def server(
    *blocks: bytes, silent: bool = False, context: ssl.SSLContext | None = None
) -> Iterator[tuple[str, bytearray]]:
    """Sends ``blocks`` after the first bytes of a client; its address, and what the client sent."""
    received, seen = bytearray(), threading.Event()

    def serve() -> None:
        client, _ = listener.accept()
        if context is not None:
            client = context.wrap_socket(client, server_side=True)
        with client, suppress(OSError):  # a client that has seen enough resets the connection
            received.extend(client.recv(65536))
            for block in blocks:
                client.sendall(block)
            if not silent and context is None:
                client.shutdown(socket.SHUT_WR)
            while block := client.recv(65536):
                received.extend(block)
        seen.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"sc://127.0.0.1:{listener.getsockname()[1]}", received
        thread.join(60)
    assert seen.is_set()


@pytest.mark.parametrize(
    "blocks",
    [
        [SETTINGS + ACK + HEADERS + frame(0, 0, 1, ANSWER) + TRAILERS],
        [SETTINGS, HEADERS, frame(0, 0, 1, ANSWER[:7]), PING, frame(0, 0, 1, ANSWER[7:]), TRAILERS],
        [SETTINGS + HEADERS + PADDED + TRAILERS],
        [SETTINGS + HEADERS + frame(0, 1, 1, ANSWER)],
        [bytes([byte]) for byte in SETTINGS + HEADERS + frame(0, 0, 1, ANSWER) + TRAILERS],
    ],
)
def test_version_is_read_from_whatever_frames_it_comes_in(blocks: list[bytes]) -> None:
    with server(*blocks) as (address, received):
        assert server_version.version(f"{address}/;user_id=ada;x-team=a%20b") == "4.0.5"
    assert received.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert b"\x06x-team\x03a b" in received
    assert b"user_id" not in received
    assert b"\x12\x05\x0a\x03ada" in received  # the user is part of the message
    assert received.count(b"/ReleaseSession") == 1


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        SETTINGS + TRAILERS,  # an error of gRPC: a token is wanted
        SETTINGS + frame(3, 0, 1, b"\0\0\0\1"),
        SETTINGS + frame(7, 0, 0, bytes(8)),
        SETTINGS + HEADERS + frame(0, 1, 1, b"\1" + ANSWER[1:]),  # compressed
        SETTINGS + HEADERS + frame(0, 1, 1, message(b"<b>4.0</b>")),
        SETTINGS + HEADERS + frame(0, 1, 1, b"\0\0\0\0\4\x0b\xff\xff\xff"),
        SETTINGS + HEADERS + frame(0, 9, 1, b""),
        frame(0, 0, 1, b"")[:5],
        b"\xff" * 64,
    ],
)
def test_answer_that_is_no_version_is_unknown(block: bytes) -> None:
    with server(block) as (address, received):
        assert server_version.version(address) == ""
    assert b"ReleaseSession" not in received or b"4.0</b>" in block


def test_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_version, "_ANSWER_S", 0.2)
    started = time.monotonic()
    with server(SETTINGS, PING, silent=True) as (address, _):
        assert server_version.version(address) == ""
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("parameters", ["/;use_ssl=true", "/"])
def test_token_is_sent_in_tls_alone(parameters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's own client does it; its one exception is ``localhost``."""
    certificate = write_certificate(tmp_path / "certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "s3cret" * 40)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])
    with server(SETTINGS + HEADERS + frame(0, 1, 1, ANSWER), context=context) as (address, received):
        assert "has Spark 4.0.5" in server_version.complaint(address + parameters, "4.3.0")
    assert b"Bearer " + b"s3cret" * 40 in received
    with server(SETTINGS) as (address, received):
        assert server_version.complaint(address + parameters, "4.3.0") == ""
    assert b"s3cret" not in received


def test_submit_sends_no_token_of_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "s3cret")
    with server(SETTINGS + HEADERS + frame(0, 1, 1, ANSWER)) as (address, received):
        assert server_version.version(address) == "4.0.5"
    assert b"authorization" not in received


@pytest.mark.parametrize("address", ["sc://127.0.0.1:9", "sc://", "spark://127.0.0.1:9", "sc://127.0.0.1:99999", ""])
def test_server_that_is_not_there_is_unknown(address: str) -> None:
    assert server_version.version(address) == ""


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ("4.3.0", "4.0.5", True),
        ("4.0.5", "4.3.0", False),
        ("3.5.1", "4.0.0", False),  # Spark keeps its servers compatible with older clients
        ("4.3.1", "4.3.0", False),
        ("4.10.0", "4.9.0", True),
        ("4.3.0.dev1", "4.3.0-SNAPSHOT", False),
        ("", "4.0.5", False),
        ("4.3.0", "", False),
        ("4.3.0", "unknown", False),
    ],
)
def test_client_is_too_new_by_its_minor_version(mine: str, theirs: str, expected: bool) -> None:
    assert server_version.is_newer(mine, theirs) is expected
    complaint = server_version.complaint("sc://host:15002/;user_id=ada", mine, theirs or "-")
    assert complaint.startswith("the Spark Connect server sc://host:15002 has Spark") is expected
