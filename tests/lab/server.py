"""A folder on loopback HTTP, which remembers what was asked and fails where a test wants it to."""

from __future__ import annotations

import base64
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import io
    import os
    import socket
    from collections.abc import Iterator
    from typing import BinaryIO

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"


class Fault(NamedTuple):
    """What goes wrong with a path: an error instead of an answer, an answer that comes late, half an answer."""

    status: int = 0
    delay: float = 0
    cut: bool = False


@contextmanager
def serve(folder: Path, certificate: Path | None = None) -> Iterator[Server]:
    """With a ``certificate`` (see ``write_certificate``) it speaks TLS, with a certificate that no client trusts."""
    with Server(folder, certificate) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def write_certificate(path: Path) -> Path:
    """Key and certificate of 127.0.0.1 in one file, self-signed."""
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    key = path.with_suffix(".key")
    made = ["openssl", *words.split(), "-keyout", str(key), "-out", str(path)]
    subprocess.run(made, check=True, capture_output=True)
    path.write_bytes(key.read_bytes() + path.read_bytes())
    return path


class Server(ThreadingHTTPServer):
    """``paths`` are the requests so far, ``bytes_sent`` the bodies; ``faults`` may change at any time.

    Who does not know the ``password`` (``user:word``) gets nothing, who does not show the ``signature`` in the query
    gets no file below ``/files/``.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, certificate: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.folder = folder
        self.password = ""
        self.signature = ""
        self.faults: dict[str, Fault] = {}
        self.paths: list[str] = []
        self.bytes_sent = 0
        self.counting = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def with_password(self) -> str:
        return self.url.replace("//", f"//{self.password}@")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """As always, but a client that does not trust our certificate may hang up."""
        if not isinstance(sys.exc_info()[1], ssl.SSLError):
            super().handle_error(request, client_address)


class _Answer(SimpleHTTPRequestHandler):
    server: Server

    def __init__(self, request: socket.socket, client_address: tuple[str, int], server: Server) -> None:
        super().__init__(request, client_address, server, directory=str(server.folder))

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        with self.server.counting:
            self.server.paths.append(path)
        fault = self.server.faults.get(path, Fault())
        if not self._is_welcome(path):
            fault = Fault(status=HTTPStatus.UNAUTHORIZED if self.server.password else HTTPStatus.FORBIDDEN)
        self.server.closing.wait(fault.delay)
        try:
            self._send(fault, with_body)
        except ConnectionError:
            self.close_connection = True  # the client is gone, perhaps killed by the test

    def _is_welcome(self, path: str) -> bool:
        basic = "Basic " + base64.b64encode(self.server.password.encode()).decode()
        if self.server.password and self.headers.get("Authorization") != basic:
            return False
        return not path.startswith("/files/") or self.server.signature in urlsplit(self.path).query

    def end_headers(self) -> None:
        """As always, but with a WWW-Authenticate header: git needs it."""
        if self.server.password:
            self.send_header("WWW-Authenticate", "Basic realm=lab")
        super().end_headers()

    def _send(self, fault: Fault, with_body: bool) -> None:
        if fault.status:
            self.send_error(fault.status)
        elif found := self.send_head():
            with found:
                body = found.read() if with_body else b""
            sent = body[: len(body) // 2] if fault.cut else body
            with self.server.counting:
                self.server.bytes_sent += len(sent)
            self.wfile.write(sent)

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """As always, but the JSON page of a package index for those who understand it."""
        page = f"{self.path}index.json"
        wanted = self.path.endswith("/") and SIMPLE_JSON in self.headers.get("Accept", "")
        if wanted and Path(self.translate_path(page)).exists():
            self.path = page
        return super().send_head()

    def send_response(self, code: int, message: str | None = None) -> None:
        """As always, but "not modified" says since when: py-rattler takes one that does not for a broken answer."""
        super().send_response(code, message)
        if code == HTTPStatus.NOT_MODIFIED:
            self.send_header("Last-Modified", self.headers["If-Modified-Since"])

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return SIMPLE_JSON if str(path).endswith("/index.json") else super().guess_type(path)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: ``paths`` is the log."""
