"""The gate before every route: host, origin, session and size are checked here and nowhere else.

It wraps the whole application, so a new route is behind it without a line of its own. Decisions use the request as it
was received: the Host header, the raw target and the headers, never a URL that was built from them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from starlette.exceptions import HTTPException

from holdfast.web import sign_in_page
from holdfast.web.sessions import token_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holdfast.web.sessions import Sessions

MOST_BODY = 6_000_000  # bytes: a text of 5 MB as a form
_BODY_SECONDS = 20.0  # between two pieces of a body
_SEND_SECONDS = 60.0  # for a client that does not read
_MOST_HEADERS = 100
_MOST_RANGES = 10
_SAFE = ("GET", "HEAD")
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
OPEN = {("POST", SIGN_IN), ("GET", "/static/base.css"), ("HEAD", "/static/base.css")}  # without a session
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Files of runs: an opaque origin without script, whether framed by a page of ours or opened by their address.
INERT = "sandbox; default-src 'none'; frame-ancestors 'self'"
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send forms with the origin null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refusal(NamedTuple):
    status: int
    why: str


class Gate:
    """``names`` are the host names of this server, without a port: ``ssh -L`` changes the port."""

    def __init__(self, app: ASGIApp, names: Collection[str], sessions: Sessions, *, read_only: bool) -> None:
        self._app = app
        self._names = frozenset(names)
        self._sessions = sessions
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:  # no page of ours uses WebSockets
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _Headers(scope)
        refusal = self._refusal(scope, headers)
        guarded = _Guarded(receive, send)
        if refusal is None:
            await self._app(scope, guarded.receive, guarded.send)
            return
        wants_page = scope["method"] == "GET" and "text/html" in headers.one("accept")
        await sign_in_page.refuse(guarded.send, refusal, scope["path"] if wants_page else None)

    def _refusal(self, scope: Scope, headers: _Headers) -> Refusal | None:
        return (
            _malformed(scope, headers)
            or self._wrong_host(headers)
            or _foreign(scope, headers)
            or self._without_session(scope, headers)
            or self._not_allowed(scope)
        )

    def _wrong_host(self, headers: _Headers) -> Refusal | None:
        name, _, port = headers.one("host").partition(":")
        if name in self._names and (not port or (port.isascii() and port.isdigit())):
            return None
        return Refusal(421, "unknown host name; open the address that holdfast ui printed")

    def _without_session(self, scope: Scope, headers: _Headers) -> Refusal | None:
        if (scope["method"], scope["path"]) in OPEN or self._sessions.is_open(token_in(headers.one("cookie"))):
            return None
        return Refusal(401, "sign in first")

    def _not_allowed(self, scope: Scope) -> Refusal | None:
        if scope["method"] not in (*_SAFE, "POST"):
            return Refusal(405, "this method is not used here")
        if self._read_only and scope["method"] == "POST" and scope["path"] not in (SIGN_IN, SIGN_OUT):
            return Refusal(403, "this server was started with --read-only")
        return None


class _Headers:
    """``one`` is the value of a header that may occur once; a second one counts as a malformed request."""

    def __init__(self, scope: Scope) -> None:
        self._all: list[tuple[bytes, bytes]] = scope["headers"]

    def __len__(self) -> int:
        return len(self._all)

    def every(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self._all if key == name.encode()]

    def one(self, name: str) -> str:
        return next(iter(self.every(name)), "")


def _malformed(scope: Scope, headers: _Headers) -> Refusal | None:
    target: bytes = scope["raw_path"]
    if not target.startswith(b"/") or b"\\" in target or b"%00" in target:
        return Refusal(400, "the request line must name a path")
    if len(headers) > _MOST_HEADERS or any(len(headers.every(name)) > 1 for name in ("host", "origin", "cookie")):
        return Refusal(400, "too many headers")
    if headers.one("range").count(",") > _MOST_RANGES:
        return Refusal(416, "too many ranges")
    length = headers.one("content-length")
    if length and not (length.isascii() and length.isdigit() and len(length) < 16 and int(length) <= MOST_BODY):
        return Refusal(413, "the body of the request is too large")
    return None


def _foreign(scope: Scope, headers: _Headers) -> Refusal | None:
    """Another port of this machine is another site. A link from elsewhere may open a page and nothing more."""
    origin, site = headers.one("origin"), headers.one("sec-fetch-site")
    is_navigation = scope["method"] in _SAFE and headers.one("sec-fetch-mode") == "navigate"
    # The file that opens the browser posts the code from no origin; the code is the proof.
    is_opening = scope["path"] == SIGN_IN and scope["method"] == "POST" and origin in ("null", "")
    if origin and origin != f"http://{headers.one('host')}" and not is_opening:
        return Refusal(403, "requests from other sites are refused")
    if site and site not in ("same-origin", "none") and not is_navigation and not is_opening:
        return Refusal(403, "requests from other sites are refused")
    return None


class _Guarded:
    """Reads a body within its limits, and adds our headers to every response."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._size = 0
        self._is_read = False

    async def receive(self) -> Message:
        if self._is_read:  # what follows is the end of the connection, which may be hours away
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), _BODY_SECONDS)
        except asyncio.TimeoutError as error:
            raise HTTPException(408, "the body of the request did not arrive") from error
        self._size += len(message.get("body", b""))
        self._is_read = not message.get("more_body", False)
        if self._size > MOST_BODY:
            raise HTTPException(413, "the body of the request is too large")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.decode().lower() for name, _ in message.get("headers", ())}
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in own]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await asyncio.wait_for(self._send(message), _SEND_SECONDS)
