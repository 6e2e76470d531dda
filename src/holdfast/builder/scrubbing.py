"""Removes secrets from URLs: passwords, signatures, tokens."""

from __future__ import annotations

import os
import re
from typing import Any

SCHEME = r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)"
USER = re.compile(SCHEME + r"[^\s/?#'\"<>]*@")
QUERY = re.compile(r"(?P<address>\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s?#'\"<>]*)\?[^\s#'\"<>)]*")
USERINFO = re.compile(r"(?<=://)[^\s/?#'\"<>]+@")
TOKEN = re.compile(r"/t/[\w-]+(?=/|\Z)")
CONDA_TOKEN = re.compile(r"(://[^\s'\"<>/]+)/t/[\w-]+(?=/|\Z|[\s'\"<>])")


def scrub(text: str) -> str:
    """The text without ``user:password@``, query strings and conda's ``/t/token`` in its URLs."""
    if "://" not in text:
        return text
    # No URL goes over the end of a line, and most lines of long texts have none.
    return "".join(_scrub_line(line) if "://" in line else line for line in text.splitlines(keepends=True))


def scrubbed(value: Any) -> Any:
    """Plain data with every text in it scrubbed."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {name: scrubbed(item) for name, item in value.items()}
    return value


def forget_queries(cache: str, text: str) -> None:
    """Remove what uv noted about addresses with a query in ``text``: its notes have them whole."""
    queries = {match[0].partition("?")[2].encode() for match in QUERY.finditer(text)} - {b""}
    _forget(cache, queries, (".http", ".msgpack", ".rev"))


def forget_channels(cache: str, urls: list[str]) -> None:
    """The same of what py-rattler noted about channels with a password or a token."""
    secrets = {match[0] for url in urls for match in (*USERINFO.finditer(url), *TOKEN.finditer(url))}
    _forget(cache, {word.encode() for word in secrets}, ("-cache-v1", ".info.json"))


def _scrub_line(line: str) -> str:
    return CONDA_TOKEN.sub(r"\1", QUERY.sub(r"\g<address>", USER.sub(r"\g<scheme>", line)))


def _forget(cache: str, secrets: set[bytes], endings: tuple[str, ...]) -> None:
    for folder, folders, names in os.walk(cache) if secrets else ():
        # Text in packages holds no notes of the user.
        folders[:] = [name for name in folders if not name.startswith("archive-")]
        for path in (os.path.join(folder, name) for name in names if name.endswith(endings)):
            with open(path, "rb") as file:
                content = file.read()
            if any(secret in content for secret in secrets):
                os.unlink(path)
