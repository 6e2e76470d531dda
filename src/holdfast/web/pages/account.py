"""Signing in and out, and the first page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, RedirectResponse

from holdfast.web import sign_in_page
from holdfast.web.app import form, workbench
from holdfast.web.sessions import cookie, token_in

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def first(_request: Request) -> Response:
    return RedirectResponse("/runs", 303)


async def sign_in(request: Request) -> Response:
    fields = await form(request)
    path = fields.get("next", "/")
    token = workbench(request).sessions.sign_in(fields.get("code", ""))
    if not token:
        return HTMLResponse(sign_in_page.form(path, wrong=True), 401)
    return HTMLResponse(sign_in_page.entered(path), headers={"set-cookie": cookie(token)})


async def sign_out(request: Request) -> Response:
    workbench(request).sessions.sign_out(token_in(request.headers.get("cookie", "")))
    return HTMLResponse(sign_in_page.form("/"), 200, headers={"set-cookie": cookie("")})
