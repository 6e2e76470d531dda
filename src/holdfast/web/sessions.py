"""Who may talk to the server: one-time sign-in codes and the sessions that they open, in memory only."""

from __future__ import annotations

import secrets
import time
from hmac import compare_digest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

COOKIE = "holdfast"
_CODE_SECONDS = 60.0
_MOST_ATTEMPTS = 20  # wrong codes before the current one is withdrawn
_MOST_SESSIONS = 50


class Sessions:
    """A code is good for one sign-in within a minute. Tokens have 256 bits and end with the command.

    ``changed`` is told all tokens when one came or went.
    """

    def __init__(self) -> None:
        self._code = ""
        self._expires = 0.0
        self._wrong = 0
        self.tokens: list[str] = []
        self.changed: Callable[[list[str]], None] = lambda _tokens: None

    def new_code(self) -> str:
        self._code, self._expires, self._wrong = secrets.token_urlsafe(16), time.monotonic() + _CODE_SECONDS, 0
        return self._code

    def sign_in(self, code: str) -> str:
        """The token of a new session; empty where the code is wrong, used or expired."""
        is_right = bool(self._code) and compare_digest(code.encode(), self._code.encode())
        self._wrong += not is_right
        is_due = time.monotonic() < self._expires
        if is_right or not is_due or self._wrong >= _MOST_ATTEMPTS:
            self._code = ""
        if not is_right or not is_due:
            return ""
        self._keep([*self.tokens[1 - _MOST_SESSIONS :], secrets.token_urlsafe(32)])
        return self.tokens[-1]

    def is_open(self, token: str) -> bool:
        return any(compare_digest(token.encode(), known.encode()) for known in self.tokens)

    def sign_out(self, token: str) -> None:
        self._keep([known for known in self.tokens if not compare_digest(token.encode(), known.encode())])

    def _keep(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.changed(tokens)


def token_in(cookies: str) -> str:
    """Our token in the value of a Cookie header."""
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def cookie(token: str) -> str:
    """The value of Set-Cookie; an empty token removes the cookie."""
    age = "" if token else "; Max-Age=0"
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{age}"
