"""Answers without a session: the sign-in form, the page behind it, and plain refusals."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from starlette.types import Send

    from holdfast.web.gate import Refusal

_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    '<link rel="stylesheet" href="/static/base.css">'
)
_FORM = _HEAD + (
    '<title>Sign in - Holdfast</title></head><body class="sign-in"><main><h1>Holdfast</h1>{note}'
    '<form method="post" action="/sign-in"><label for="code">Sign-in code</label>'
    '<input id="code" name="code" type="password" required autocomplete="off" spellcheck="false">'
    '<input type="hidden" name="next" value="{next}"><button type="submit">Sign in</button></form>'
    "<p>The code is in the terminal where <code>holdfast ui</code> runs. It works once, for one minute; "
    "press Enter there for a new one.</p></main></body></html>"
)
# A page and not a redirect: the cookie is not sent along a redirect that began at another site or a file.
_ENTERED = _HEAD + (
    '<meta http-equiv="refresh" content="0;url={next}"><title>Signed in - Holdfast</title></head>'
    '<body class="sign-in"><main><h1>Holdfast</h1><p><a href="{next}">Signed in; continue</a></p></main></body></html>'
)
_WRONG = '<p class="error" role="alert">This code is wrong, was used, or is older than a minute.</p>'


def form(path: str, *, wrong: bool = False) -> bytes:
    return _FORM.format(note=_WRONG if wrong else "", next=escape(safe_path(path))).encode()


def entered(path: str) -> bytes:
    return _ENTERED.format(next=escape(safe_path(path))).encode()


def safe_path(path: str) -> str:
    """A path on this server; anything else becomes the first page."""
    is_path = path.startswith("/") and not path.startswith("//") and path.isprintable() and "\\" not in path
    return quote(path, safe="/%?=&-._~") if is_path else "/"


async def refuse(send: Send, refusal: Refusal, page: str | None) -> None:
    """``page``: a person asks for this path and can sign in to see it."""
    if refusal.status == 401 and page is not None:
        body, kind = form(page), b"text/html; charset=utf-8"
    else:
        body, kind = f"{refusal.why}\n".encode(), b"text/plain; charset=utf-8"
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
