"""One package as conda reads it, in one spelling. Names differ by ``-`` and ``_`` here, unlike pip's."""

from __future__ import annotations

import re

from holdfast.record import Record

_SHAPE = re.compile(r"(?:([A-Za-z0-9_./:-]+)::)?([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*(.*)")
_BRACKETS = re.compile(r"(.*?)\[([A-Za-z0-9_.*+!<>=,|~^$:/ '\"-]*)\]")
_LONGEST = 500
_VERSION = re.compile(r"[A-Za-z0-9_.*+!<>=,|~^$() -]*")


class NotAMatchSpecError(ValueError):
    """The text is none, and the message says why."""


class MatchSpec(Record):
    """``version`` keeps conda's operators: ``=1.2``, ``>=1.2,<2``, or none for an exact one."""

    name: str
    version: str = ""
    build: str = ""
    channel: str = ""
    more: str = ""
    is_doubled: bool = False

    @property
    def text(self) -> str:
        head = f"{self.channel}::{self.name}" if self.channel else self.name
        is_short = self.version.startswith("=")
        version = self.version if is_short or not self.version or self.version[0] in "<>!~" else f" {self.version}"
        build = (f"={self.build}" if is_short else f" {self.build}") if self.build else ""
        return head + version + build + (f"[{self.more}]" if self.more else "")


def parse(text: str) -> MatchSpec:
    """``numpy==1.13`` is read as ``numpy=1.13``, which is what the authors of such files meant."""
    if len(text) > _LONGEST:
        raise NotAMatchSpecError(f"it is longer than {_LONGEST} characters")
    match = _SHAPE.fullmatch(text.partition(" #")[0].strip())
    if not match:
        raise NotAMatchSpecError("it does not begin with the name of a package")
    channel, name, rest = match[1] or "", match[2].lower(), match[3].strip()
    more = ""
    brackets = _BRACKETS.fullmatch(rest)
    if brackets:
        rest, more = brackets[1].strip(), "".join(brackets[2].split())
    if not _VERSION.fullmatch(rest):
        raise NotAMatchSpecError(f"{rest!r} is not a version such as =1.2 or >=1.2,<2")
    rest = re.sub(r"\s*([<>=!~,|]+)\s*", r"\1", rest)
    if rest.startswith("="):
        is_doubled = rest.startswith("==")
        version, _, build = rest.lstrip("=").partition("=")
        if not version:
            raise NotAMatchSpecError("no version follows the =")
        return MatchSpec(name, f"={version.lower()}", build, channel, more, is_doubled)
    version, _, build = rest.partition(" ")
    return MatchSpec(name, ",".join(sorted(set(version.lower().split(",")))), build.strip(), channel, more)
