"""Removes passwords, tokens and signatures from URLs that are shown or stored, and restores them for downloads."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# JSON of some writers has the slashes escaped.
_SLASHES = r":(?:\\?/){2}"
_NO_URL = r"\s\"<>`"
# An apostrophe is legal in a query, and it is what Python puts around text: only where text goes on is it an end.
_QUERY = rf"\?(?:[^{_NO_URL}'#]|'(?![\s,;:)\]}}]|\Z))*"
_USERINFO = re.compile(rf"({_SLASHES})[^{_NO_URL}/\\?#]*@")
_URL_QUERY = re.compile(rf"({_SLASHES}[^{_NO_URL}?#]*){_QUERY}")
_PATH_QUERY = re.compile(rf"(/[^{_NO_URL}?#]*)(?=\?[\w.~%-]+=){_QUERY}")
_CONDA_TOKEN = re.compile(rf"({_SLASHES}[^{_NO_URL}/?#]+)/t/[\w-]+(?=/|\Z|[{_NO_URL}'])")
_REPOSITORY = re.compile(r"(git\+[a-z]+://(?:[^/@]*@)?[^@#]+)")
_URL = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://[^{_NO_URL}]+")


def scrub(text: str) -> str:
    """``text`` with ``user:password@``, query strings and conda channel tokens taken out of every URL in it."""
    if "/" not in text:
        return text
    text = _USERINFO.sub(r"\1", text)
    text = _URL_QUERY.sub(r"\1", text)
    text = _PATH_QUERY.sub(r"\1", text)
    return _CONDA_TOKEN.sub(r"\1", text)


def restored(text: str, known: Iterable[str]) -> str:
    """``text`` with the secrets of every URL that ``known`` texts have whole; the opposite of ``scrub``."""
    for url in {url for line in known for url in _URL.findall(line)}:
        whole, end = _restorable(url)
        bare = scrub(whole)
        if bare != whole:
            whole = whole.replace("\\", r"\\")
            text = re.sub(rf"{re.escape(bare)}(?={end}|[\s#;'\"]|\Z)", whole, text)
    return text


def _restorable(url: str) -> tuple[str, str]:
    """The part of a known URL that a lock has as well, and what may follow it there."""
    if match := _REPOSITORY.match(url):
        return match[1], "@"  # the project names a branch, the lock a commit
    return (url, r"\Z") if "?" in url else (url.rstrip("/"), "/")  # a channel's files lie below it
