"""Secrets that travel in URLs: passwords, signatures, tokens."""

from __future__ import annotations

import os
import re

SCHEME = r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)"
USER = re.compile(SCHEME + r"[^\s/?#'\"<>]*@")
QUERY = re.compile(r"(?P<address>\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s?#'\"<>]*)\?[^\s#'\"<>)]*")
CONDA_TOKEN = re.compile(r"(://[^\s'\"<>/]+/t/)[^\s'\"<>/]+")


def scrub(text: str) -> str:
    """The text without ``user:password@``, query strings and conda's ``/t/token`` in its URLs."""
    if "://" not in text:
        return text
    return CONDA_TOKEN.sub(r"\1***", QUERY.sub(r"\g<address>", USER.sub(r"\g<scheme>", text)))


def forget_queries(cache: str, asked: str) -> None:
    """Remove what uv noted about addresses with a query in ``asked``: its notes have them whole."""
    queries = {found[0].partition("?")[2].encode() for found in QUERY.finditer(asked)} - {b""}
    if not queries:
        return
    for folder, folders, names in os.walk(cache):
        folders[:] = [
            name for name in folders if not name.startswith("archive-")
        ]  # what is in packages is nobody's note
        for path in (os.path.join(folder, name) for name in names if name.endswith((".http", ".msgpack", ".rev"))):
            with open(path, "rb") as file:
                content = file.read()
            if any(query in content for query in queries):
                os.unlink(path)
