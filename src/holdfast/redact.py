"""Removes secrets from text: known values, and text that looks like a secret (pure).

Values that were seen where secrets are stored are removed wherever they occur again, in the encodings that programs
use. Text with the shape of a secret is removed even if its value is unknown.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from urllib.parse import quote, quote_plus

from holdfast.environments.secrets import scrub
from holdfast.runner.decoding import as_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GONE = "***"
_ENDLESS = re.compile(r"\S{1001,}")  # searching one word for secrets takes the square of its length
_SHORTEST = 5  # of a secret that is looked for everywhere; shorter ones are in every second word
_NUMBER, _LONG_NUMBER = re.compile(r"[\d.eE+-]+"), 10  # a learning rate would be found in every time and size
_BETWEEN, _LONG_WORD = re.compile(r"[\s'\"=:?&/@,;<>|()]+"), 8
_SECRET_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|auth"
    r"|authorization|credentials?|cookie|signature|sas|dsn|connection[_-]?string|webhook|netrc|jwt|bearer"
)
_NAME = re.compile(rf"(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?i:{_SECRET_WORDS}|key)(?:$|[_.-]|\d)")
_ASSIGNED = re.compile(
    rf"(?i)([\w.-]*(?:{_SECRET_WORDS})[\w.-]*[\"']?\s*[=:]\s*|--[\w-]*(?:{_SECRET_WORDS})[\w-]*\s+)"
    r"(\"[^\"\n]*\"|'[^'\n]*'|(?:bearer|basic)\s+\S+|[^\s,;&\"'}]+)"
)
_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_SHAPES = re.compile(
    r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}|gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}"
    r"|hf_[A-Za-z0-9]{20,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{30,}|pypi-[\w-]{30,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+|dckr_pat_[\w-]{10,}|ya29\.[\w-]{20,})"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a secret: DB_PASSWORD, api-key, sasToken."""
    return name not in ("PWD", "OLDPWD") and bool(_NAME.search(name))


class Redactor:
    """``secrets`` are values to take out wherever they come; ``home`` is written ~."""

    def __init__(self, secrets: Iterable[str], home: str = "") -> None:
        spellings = {form for secret in secrets for part in _parts(secret) for form in _spellings(part)}
        self._known: dict[str, list[str]] = {}  # by their first letters: one look for each letter of a text
        for form in sorted(spellings, key=lambda form: (-len(form), form)):
            self._known.setdefault(form[:_SHORTEST], []).append(form)
        self._home = re.compile(rf"{re.escape(home)}(?=[/\\\s\"':,]|\Z)") if len(home) > 1 else None

    def text(self, text: str) -> str:
        text = _ENDLESS.sub(GONE, self._without_known(text))
        text = _BLOCK.sub(GONE, scrub(text))
        text = _BEARER.sub(rf"\1 {GONE}", text)
        text = _ASSIGNED.sub(rf"\1{GONE}", text)
        text = _SHAPES.sub(GONE, text)
        return self._home.sub("~", text) if self._home is not None else text

    def _without_known(self, text: str) -> str:
        parts, begin, position = [], 0, 0
        while self._known and position <= len(text) - _SHORTEST:
            forms = self._known.get(text[position : position + _SHORTEST], ())
            secret = next((form for form in forms if text.startswith(form, position)), "")
            if secret:
                parts += [text[begin:position], GONE]
                begin = position + len(secret)
            position += len(secret) or 1
        return "".join([*parts, text[begin:]])

    def value(self, value: object) -> object:
        """The same for all text in JSON; any value under the name of a secret is removed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {
                self.text(str(name)): GONE
                if is_secret_name(str(name)) and isinstance(inner, str)
                else self.value(inner)
                for name, inner in value.items()
            }
        return value


def words(arguments: Iterable[object]) -> tuple[list[str], list[str]]:
    """A command line with the names of its options and none of their values; and the values."""
    shown: list[str] = []
    gone: list[str] = []
    for word in map(str, arguments):
        name, equals, value = word.partition("=")
        is_option = word.startswith("-") and not word.lstrip("-")[:1].isdigit() and word.strip("-") != ""
        if is_option:
            shown.append(f"{name}={GONE}" if equals else name)
            gone += [value] if equals else []
        else:
            shown.append(GONE)
            gone.append(word)
    return shown, gone


def _parts(secret: str) -> Iterator[str]:
    """The whole, and its long words: of a command or an address that holds a secret, a log may say that word alone."""
    yield secret
    yield from (word for word in _BETWEEN.split(secret) if len(word) >= _LONG_WORD and not is_secret_name(word))


def _spellings(secret: str) -> Iterator[str]:
    if len(secret) < _SHORTEST or (len(secret) < _LONG_NUMBER and _NUMBER.fullmatch(secret)):
        return
    raw = as_bytes(secret)
    quoted = (quote(raw, safe=""), quote(raw), quote_plus(raw), json.dumps(secret)[1:-1], repr(secret)[1:-1])
    yield from (secret, *quoted, b64encode(raw).decode(), raw.hex())
