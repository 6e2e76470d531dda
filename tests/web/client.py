"""A running ``holdfast ui``, spoken to as a browser does."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from conftest import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Desk

SCRIPT = """
import os, sys
import holdfast
print("begin", *sys.argv[1:], flush=True)
for number in range(20):
    holdfast.log("loss", 1 / (number + 1))
    holdfast.log("accuracy", number / 20)
os.makedirs("outputs", exist_ok=True)
with open("outputs/page.html", "w") as page:
    page.write("<h1>report</h1><script>parent.document.title = 'broken'; document.title = 'broken'</script>")
with open("outputs/picture.svg", "w") as picture:
    picture.write("<svg xmlns='http://www.w3.org/2000/svg'><script>parent.document.title='broken'</script></svg>")
with open("outputs/table.csv", "w") as table:
    table.write("a,b\\\\n1,2\\\\n")
print("\\x1b[32mdone\\x1b[0m \\u202ereversed", flush=True)
""".replace("\\\\n", "\\n")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answering(server: Server) -> int:
    """The process that answers; its parent is the command."""
    pid = server.process.pid
    path = Path(f"/proc/{pid}/task/{pid}/children")
    eventually(lambda: bool(path.read_text().split()))
    return int(path.read_text().split()[0])


class Server:
    def __init__(self, desk: Desk, *options: str) -> None:
        self.process = desk.start("ui", "--no-open", *options, stderr=subprocess.STDOUT)
        assert self.process.stdout is not None
        self.said: dict[str, str] = {}
        while "code" not in self.said and (line := self.process.stdout.readline()):
            name, _, value = line.decode().strip().partition(" ")
            self.said[name] = value.strip()
        self.code = self.said["code"]
        self.path = self.said.get("socket", "")
        match = re.fullmatch(r"http://([^:]+):(\d+)/", self.said["address"])
        assert match, self.said
        self.name, self.port = match[1], int(match[2])
        self.host = f"{self.name}:{self.port}"
        self.cookie = ""

    def connect(self) -> socket.socket:
        if not self.path:
            return socket.create_connection(("127.0.0.1", self.port), 20)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        connection.connect(self.path)
        return connection

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        signed_in: bool = True,
    ) -> Answer:
        sent = {"Host": self.host, **({"Cookie": self.cookie} if signed_in and self.cookie else {}), **(headers or {})}
        connection = http.client.HTTPConnection(self.name, self.port, timeout=20)
        connection.sock = self.connect()
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, {"Accept": "text/html", **headers})

    def post(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None, *, signed_in: bool = True
    ) -> Answer:
        sent = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{self.host}", **(headers or {})}
        return self.ask("POST", path, sent, urlencode(fields).encode(), signed_in=signed_in)

    def sign_in(self) -> Server:
        answer = self.post("/sign-in", {"code": self.code, "next": "/runs"}, signed_in=False)
        assert answer.status == 200, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def status_of(self, request: bytes) -> int:
        """The status that raw bytes get; 0 where the connection is closed without one."""
        with self.connect() as connection, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(request)
            data = b""
            while b"\r\n" not in data and (block := connection.recv(4096)):
                data += block
            return int(data.split()[1]) if data.startswith(b"HTTP/1.1 ") else 0
        return 0

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code
