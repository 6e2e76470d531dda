"""Nothing is answered without a session, from another site, or beyond the limits."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import Desk, as_user, eventually
from holdfast.web.gate import OPEN
from holdfast.web.routes import ROUTES
from holdfast.web.sessions import Sessions
from holdfast.web.sign_in_page import safe_path
from web.client import Server, answering

if TYPE_CHECKING:
    from holdfast.web.routes import Page

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
# Every route that there is, by what it does. A route that is added must be added here.
CHANGES = {
    *("/sign-in", "/sign-out", "/runs/{uid}/cancel", "/runs/{uid}/labels", "/new-project", "/add-folder"),
    *("/projects/{project}/submit", "/projects/{project}/save", "/projects/{project}/targets/{name}/check"),
    *("/settings/save", "/labels", "/views", "/attach", "/projects/{project}/targets/{name}/detach"),
    *("/runs/{uid}/restore", "/runs/{uid}/passport", "/projects/{project}/preflight"),
    *("/projects/{project}/save-form", "/projects/{project}/prompt", "/runs/{uid}/prompt"),
    *("/runs/{uid}/reproduce", "/projects/{project}/targets/{name}/prepare"),
    *("/prompts/{id}/keys", "/prompts/{id}/close", "/runs/{uid}/fetch"),
}
SHOWS = {
    *("/", "/static/{name}", "/events", "/runs", "/runs.json", "/rows.json", "/jobs", "/jobs.json"),
    *("/runs/{uid}", "/runs/{uid}.json", "/runs/{uid}/curves.json", "/runs/{uid}/search.json"),
    *("/runs/{uid}/log", "/runs/{uid}/log.json", "/runs/{uid}/log.txt", "/runs/{uid}/outputs", "/runs/{uid}/file"),
    *("/compare", "/compare.json", "/compare.html", "/projects", "/projects.json", "/projects/{project}"),
    *("/projects/{project}/run", "/projects/{project}/files", "/targets", "/targets.json"),
    *("/settings", "/settings.json", "/points.json", "/names.json", "/runs.csv", "/runs/{uid}/code"),
    *("/runs/{uid}/picture", "/help", "/help.json", "/runs/{uid}/code.json", "/runs/{uid}/outputs.json"),
    *("/prompts", "/prompts.json", "/prompts/{id}", "/prompts/{id}.json"),
    *("/projects/{project}.json", "/projects/{project}/run.json", "/projects/{project}/files.json"),
}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_every_route_is_listed() -> None:
    assert {page.path for page in ROUTES if page.post} == CHANGES
    assert {page.path for page in ROUTES if not page.post} == SHOWS
    assert {path for _, path in OPEN} == {"/sign-in", "/static/base.css"}


@pytest.mark.parametrize("path", [*sorted(CHANGES | SHOWS), "/static/no", "/no/such/page"])
def test_nothing_is_answered_without_a_session(server: Server, uid: str, path: str) -> None:
    for method in METHODS:
        if (method, path) == ("POST", "/sign-in"):
            continue
        for headers in ({}, UPGRADE):
            answer = server.ask(method, _filled(path, uid), headers, signed_in=False)
            assert answer.status == 401, (method, path, answer)
            assert b"loss" not in answer.body


def test_headers_are_on_every_answer(server: Server, uid: str) -> None:
    for path in sorted(CHANGES | SHOWS - {"/events"}):
        answer = server.get(_filled(path, uid))
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("page", ROUTES, ids=lambda page: page.path)
def test_routes_that_change_something_answer_post_alone(server: Server, uid: str, page: Page) -> None:
    path = _filled(page.path, uid)
    assert server.ask("DELETE", path).status == 405
    if page.post:
        assert server.get(path).status == 405
        assert server.get(path, Purpose="prefetch").status == 405
    else:
        assert server.post(path, {}).status == 405


def test_wrong_hosts_are_refused(server: Server) -> None:
    name, port = server.name, server.port
    wrong = [f"10.evil.example:{port}", f"{name}.evil.example:{port}", "127.0.0.1.evil.example", f"{name}.:{port}"]
    wrong += [f"ada@{name}:{port}", f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "", f"x{name}", "evil"]
    wrong += [f"{name}:{port}:1", f"{name}:80x", name.upper(), f"{name}:{port}/", f"{name}:{port},evil"]
    for host in wrong:
        assert server.ask("GET", "/runs", {"Host": host}).status in (400, 421), host
    assert server.ask("GET", "/runs", {"Host": f"{name}:9999"}).status == 200  # ssh -L changes the port


def test_absolute_request_lines_and_missing_hosts_are_refused(server: Server) -> None:
    cookie = f"Cookie: {server.cookie}\r\n"
    for head in (
        f"GET http://evil.example/runs HTTP/1.1\r\nHost: {server.host}\r\n{cookie}",
        f"GET http://{server.host}/runs HTTP/1.1\r\nHost: {server.host}\r\n{cookie}",
        f"GET /runs HTTP/1.1\r\n{cookie}",
        f"GET /runs HTTP/1.0\r\n{cookie}",
        f"GET /runs HTTP/1.1\r\nHost: {server.host}\r\nHost: evil.example\r\n{cookie}",
        f"GET \\runs HTTP/1.1\r\nHost: {server.host}\r\n{cookie}",
    ):
        assert server.status_of(f"{head}\r\n".encode()) in (400, 421), head


def test_requests_of_other_sites_are_refused(server: Server, uid: str) -> None:
    path = f"/runs/{uid}/labels"
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port}", f"http://{server.name}:1"):
        assert server.post(path, {"note": "foreign"}, {"Origin": origin}).status == 403
        assert server.get("/runs.json", Origin=origin).status == 403
    for site in ("cross-site", "same-site"):
        assert server.post(path, {"note": "foreign"}, {"Sec-Fetch-Site": site}).status == 403
        assert server.get("/runs.json", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}).status == 403
    assert server.get(f"/runs/{uid}.json").json["description"] != "foreign"
    assert server.post(path, {"note": "own"}).status == 303
    assert server.get(f"/runs/{uid}.json").json["description"] == "own"


def test_only_forms_are_accepted(server: Server, uid: str) -> None:
    for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x", ""):
        headers = {"Origin": f"http://{server.host}", "Content-Type": kind}
        assert server.ask("POST", f"/runs/{uid}/labels", headers, b"[" * 1_000_000).status == 415, kind


def test_code_works_once_and_is_in_no_argument_list(desk: Desk) -> None:
    server = Server(desk, "--port", "0")
    try:
        for wrong in ("wrong", "", "ü"):
            assert server.post("/sign-in", {"code": wrong}, signed_in=False).status == 401
        answer = server.post("/sign-in", {"code": server.code, "next": "//evil.example"}, signed_in=False)
        cookie = answer.headers["set-cookie"]
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
        assert len(cookie.partition(";")[0]) > 43  # 256 bits
        assert "evil" not in answer.text
        assert server.code not in answer.text
        assert server.post("/sign-in", {"code": server.code}, signed_in=False).status == 401
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert server.code.encode() not in process.read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        server.cookie = cookie.partition(";")[0]
        assert server.get("/runs").status == 200
        assert server.post("/sign-out", {}).status == 200
        assert server.get("/runs").status == 401
    finally:
        server.stop()


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "javascript:alert(1)", "https://evil", "/a\nb"])
def test_sign_in_leads_to_this_server_only(path: str) -> None:
    assert safe_path(path) == "/"


def test_code_expires_after_a_minute_and_after_many_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    sessions = Sessions()
    code = sessions.new_code()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert sessions.sign_in(code) == ""
    code = sessions.new_code()
    assert all(sessions.sign_in(f"{code}x") == "" for _ in range(20))
    assert sessions.sign_in(code) == ""


def test_limits_refuse_one_client_while_others_are_answered(server: Server) -> None:
    host = f"Host: {server.host}\r\n"
    many = "".join(f"X-{number}: 1\r\n" for number in range(10_000))
    assert server.status_of(f"GET /runs HTTP/1.1\r\n{host}{many}\r\n".encode()) in (0, 400)
    assert server.status_of(f"POST /sign-in HTTP/1.1\r\n{host}Content-Length: 1000000000\r\n\r\n".encode()) == 413
    endless = f"POST /sign-in HTTP/1.1\r\n{host}Content-Type: application/x-www-form-urlencoded\r\n"
    chunk = b"fffff\r\n" + b"a" * 0xFFFFF + b"\r\n"
    assert server.status_of(f"{endless}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 8) in (0, 413)
    slow = [server.connect() for _ in range(100)]
    for connection in slow:
        connection.sendall(b"GET /runs HTT")
    began = time.monotonic()
    assert server.get("/runs").status == 200
    assert time.monotonic() - began < 5  # far less on an idle machine
    ranges = ",".join(f"{number}-{number}" for number in range(10_000))
    assert server.ask("GET", "/static/uPlot.iife.min.js", {"Range": f"bytes={ranges}"}).status == 416
    for connection in slow:
        connection.settimeout(30)
        assert connection.recv(1) == b""  # the server closes it
        connection.close()


def test_read_only_server_refuses_changes(desk: Desk, uid: str) -> None:
    server = Server(desk, "--port", "0", "--read-only").sign_in()
    try:
        assert "read-only" in server.get("/jobs").text
        for path in CHANGES - {"/sign-in", "/sign-out"}:
            assert server.post(_filled(path, uid), {"note": "x"}).status == 403
    finally:
        server.stop()


def test_server_listens_on_the_loopback_only_and_is_listed(desk: Desk, server: Server) -> None:
    listening = Path("/proc/net/tcp").read_text()
    assert f"0100007F:{server.port:04X}" in listening
    assert f"00000000:{server.port:04X}" not in listening
    rows = desk.holdfast("ui", "list", "-o", "json").json
    assert [server.process.pid, f"http://{server.host}"] in [[row["pid"], row["address"]] for row in rows]
    taken = desk.holdfast("ui", "--no-open", "--port", str(server.port))
    assert taken.code == 2
    assert "cannot be used" in taken.err


def test_sessions_end_with_the_command_and_not_with_a_killed_server(desk: Desk) -> None:
    server = Server(desk, "--port", "0").sign_in()
    killed = answering(server)
    os.kill(killed, signal.SIGKILL)
    assert server.get("/runs").status == 200  # the port is held meanwhile, so nothing is refused
    successor = answering(server)
    assert successor != killed
    assert server.post("/sign-in", {"code": server.code}, signed_in=False).status == 401  # it was used
    assert server.post("/sign-out", {}).status == 200
    os.kill(successor, signal.SIGKILL)
    assert server.get("/runs").status == 401
    last = answering(server)
    server.process.kill()
    server.process.wait()
    eventually(lambda: not Path(f"/proc/{last}/exe").exists())
    server.process.communicate()


def test_socket_is_for_its_owner_only(desk: Desk) -> None:
    server = Server(desk, "--socket")
    try:
        assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(server.path)).st_mode) == 0o700
        assert f"-L 8080:{server.path}" in server.said["forward"]
        assert server.sign_in().get("/runs").status == 200
        ports = subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=True).stdout
        assert not any(f"pid={pid}," in ports for pid in (server.process.pid, answering(server)))
        if os.geteuid() == 0:
            program = f"import socket; socket.socket(socket.AF_UNIX).connect({server.path!r})"
            done = subprocess.run(
                [*as_user(65534), "/usr/bin/python3", "-c", program], capture_output=True, check=False
            )
            assert b"PermissionError" in done.stderr
        stopped = desk.holdfast("ui", "stop", str(server.process.pid))
        assert stopped.code == 0, stopped
        eventually(lambda: server.process.poll() is not None)
        assert not os.path.exists(server.path)
        assert desk.holdfast("ui", "stop", str(server.process.pid)).code == 2
    finally:
        server.stop()


def test_socket_is_made_where_every_folder_of_the_user_is_deep(desk: Desk, tmp_path: Path) -> None:
    """The name of a socket has at most 107 bytes."""
    deep = tmp_path / ("deep " * 20)
    (deep / "temporary").mkdir(parents=True)
    place = Desk.__new__(Desk)
    place.__dict__.update(desk.__dict__)
    place.env = {**desk.env, "HOLDFAST_HOME": str(deep / "store"), "TMPDIR": str(deep / "temporary")}
    server = Server(place, "--socket")
    try:
        assert stat.S_IMODE(os.stat(os.path.dirname(server.path)).st_mode) == 0o700
        assert server.sign_in().get("/runs").status == 200
    finally:
        server.stop()
    assert not os.path.exists(os.path.dirname(server.path))


def _filled(path: str, uid: str) -> str:
    return path.replace("{uid}", uid).replace("{name}", "runs.js").replace("{project}", "0").replace("{id}", "0")
