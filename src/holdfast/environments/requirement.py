"""One requirement as pip reads it (PEP 508), in one spelling; values are data and have to look like it."""

from __future__ import annotations

import re

from holdfast.record import Record

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_HEAD = re.compile(rf"({_NAME})\s*(?:\[\s*([^\]]*)\])?\s*(.*)", re.DOTALL)
_CLAUSE = re.compile(r"(===|==|~=|!=|<=|>=|<|>)\s*([A-Za-z0-9][A-Za-z0-9.*+!_-]*)")
_HASH = re.compile(r"\s--hash[= ]\s*(sha256|sha384|sha512):([0-9A-Fa-f]+)(?=\s|\Z)")
_MARKER = re.compile(
    r"\s*(?:(os_name|sys_platform|platform_(?:machine|python_implementation|release|system|version)"
    r"|python_version|python_full_version|implementation_(?:name|version)|extra"
    r"|===|==|~=|!=|<=|>=|<|>|not\s+in\b|in\b|and\b|or\b|[()])"
    r"|\"([^\"\\]*)\"|'([^'\\]*)')"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://)?[^\s;\"'`|<>]+")


class NotARequirementError(ValueError):
    """The text is none, and the message says why."""


class Requirement(Record):
    """``name`` is normalised (PEP 503) and may be empty for a bare URL; ``specifier`` and ``hashes`` are sorted."""

    name: str
    extras: tuple[str, ...] = ()
    specifier: str = ""
    url: str = ""
    marker: str = ""
    hashes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        head = self.name + (f"[{','.join(self.extras)}]" if self.extras else "")
        if self.url:
            head = f"{head} @ {self.url}" if head else self.url
        # A URL may hold a semicolon, so only one after a blank begins a marker.
        marker = f" ; {self.marker}" if self.marker else ""
        return head + self.specifier + marker + "".join(f" --hash={digest}" for digest in self.hashes)


def parse(text: str) -> Requirement:
    refuse_variables(text)
    hashes = tuple(sorted({f"{kind}:{digest.lower()}" for kind, digest in _HASH.findall(text)}))
    text = _HASH.sub("", text).strip()
    if not text.isprintable():
        raise NotARequirementError("it holds signs that are not text")
    if _URL.match(text) and " @ " not in text.partition("://")[0]:
        url, marker = _split_marker(text, " ;")
        return Requirement("", (), "", _checked_url(url), _canonical_marker(marker), hashes)
    found = _HEAD.fullmatch(text)
    if not found:
        raise NotARequirementError("it does not begin with the name of a package")
    rest = found[3]
    extras = tuple(sorted({normal(extra) for extra in (found[2] or "").split(",") if extra.strip()}))
    if rest.startswith("@"):
        url, marker = _split_marker(rest[1:].strip(), " ;")
        return Requirement(normal(found[1]), extras, "", _checked_url(url), _canonical_marker(marker), hashes)
    specifier, marker = _split_marker(rest, ";")
    return Requirement(normal(found[1]), extras, _specifier(specifier), "", _canonical_marker(marker), hashes)


def refuse_variables(text: str) -> None:
    """uv would put the value of a variable of the user's shell there, and send it to the address."""
    if "${" in text:
        raise NotARequirementError("variables of the environment are not read in it")


def normal(name: str) -> str:
    """A name as PEP 503 compares it."""
    name = name.strip()
    if not re.fullmatch(_NAME, name):
        raise NotARequirementError(f"{name!r} is not the name of a package")
    return re.sub(r"[-_.]+", "-", name).lower()


def _split_marker(text: str, sign: str) -> tuple[str, str]:
    head, found, marker = text.partition(sign)
    if found and not marker.strip():
        raise NotARequirementError("nothing follows the semicolon")
    return head.strip(), marker.strip()


def _checked_url(url: str) -> str:
    if not _URL.fullmatch(url):
        raise NotARequirementError("its address is not a URL")
    return url


def _specifier(text: str) -> str:
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    clauses = []
    for clause in text.split(",") if text else ():
        found = _CLAUSE.fullmatch(clause.strip())
        if not found:
            raise NotARequirementError(f"{clause.strip() or text!r} is not a version such as ==1.2 or >=1.2")
        clauses.append(found[1] + found[2].lower())
    return ",".join(sorted(set(clauses)))


def _canonical_marker(text: str) -> str:
    words = []
    at = 0
    while at < len(text):
        found = _MARKER.match(text, at)
        if not found:
            raise NotARequirementError(f"{text[at:].strip()!r} is not a condition such as python_version < '3.8'")
        word, double, single = found.groups()
        words.append(" ".join(word.split()) if word else f'"{double if double is not None else single}"')
        at = found.end()
    return " ".join(words)
