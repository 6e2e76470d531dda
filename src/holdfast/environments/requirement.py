"""One requirement as pip reads it (PEP 508, by ``packaging``), in one spelling."""

from __future__ import annotations

import re

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    import packaging.requirements

_CLAUSE = r"(===|==|~=|!=|<=|>=|<|>)\s*([A-Za-z0-9][A-Za-z0-9.*+!_-]*)"
_CLAUSES = re.compile(rf"\(?\s*{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\s*\)?\s*\Z")
_HASH = re.compile(r"\s--hash[= ]\s*(sha256|sha384|sha512):([0-9A-Fa-f]+)(?=\s|\Z)")
_MARKER_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|[()]|[<>=!~]+|[\w.]+")
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
        raise NotARequirementError("it holds characters that are not text")
    if _URL.match(text) and " @ " not in text.partition("://")[0]:
        # pip installs a URL without a name; PEP 508 does not have that. It needs no name here to be read.
        read, _ = _read(f"unnamed @ {text}")
        return Requirement("", (), "", _checked_url(read.url), _canonical_marker(text, " ;"), hashes)
    read, clauses = _read(text)
    name, extras = normal(read.name), tuple(sorted(map(normal, read.extras)))
    if read.url:
        return Requirement(name, extras, "", _checked_url(read.url), _canonical_marker(text, " ;"), hashes)
    return Requirement(name, extras, ",".join(clauses), "", _canonical_marker(text, ";"), hashes)


def _read(text: str) -> tuple[packaging.requirements.Requirement, list[str]]:
    """The requirement, and its version clauses, sorted.

    Old files have clauses such as ``>=1.11.*``, which pip once accepted and PEP 440 does not allow. They are kept for
    the solver to judge; the rest of the line has to be valid without them.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        read = Requirement(text)
        return read, _sorted((clause.operator, clause.version) for clause in read.specifier)
    except RecursionError:
        raise NotARequirementError("its marker nests too deeply") from None
    except InvalidRequirement as error:
        head, semicolon, marker = text.partition(";")
        head = " ".join(head.split())  # each run of blanks would be tried from each of its blanks
        try:
            read = Requirement(_CLAUSES.sub("", head) + semicolon + marker)
            if not read.specifier:
                return read, _sorted(re.findall(_CLAUSE, head))
        except InvalidRequirement:
            pass
        reason = str(error).partition("\n")[0]
        raise NotARequirementError(reason[:1].lower() + reason[1:]) from None


def _sorted(clauses: Iterable[tuple[str, str]]) -> list[str]:
    return sorted({operator + version.lower() for operator, version in clauses})


def refuse_variables(text: str) -> None:
    """uv would put the value of a variable of the user's shell there, and send it to the address."""
    if "${" in text:
        raise NotARequirementError("environment variables are not expanded in it")


def normal(name: str) -> str:
    """A name as PEP 503 compares it."""
    from packaging.utils import InvalidName, canonicalize_name

    try:
        return canonicalize_name(name.strip(), validate=True)
    except InvalidName:
        raise NotARequirementError(f"{name.strip()!r} is not a valid package name") from None


def _checked_url(url: str | None) -> str:
    if not url or not _URL.fullmatch(url):
        raise NotARequirementError("its address is not a URL")
    return url


def _canonical_marker(text: str, before: str) -> str:
    """The valid marker that follows ``before``, its tokens as written: keys of environments depend on this spelling."""
    tokens = _MARKER_TOKEN.findall(text.partition(before)[2])
    return " ".join(f'"{token[1:-1]}"' if token[0] == "'" and '"' not in token else token for token in tokens)
