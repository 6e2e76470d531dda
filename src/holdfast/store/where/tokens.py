"""The tokens of a query with their positions, and error messages that point at them."""

from __future__ import annotations

import re

from holdfast.errors import UsageError
from holdfast.record import Record

LONGEST = 4000
_SHOWN = 60  # characters of a long text to either side of a mistake
_WORD = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<name>[^\W\d][\w./-]*)
    | (?P<sign><=|>=|!=|<>|==|[=<>~(),-])
    )""",
    re.VERBOSE,
)
_LISTED = re.compile(
    r"""\s*(?P<sign>-?)\s*(?:
      (?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")\s*
    | (?P<plain>[^,`"'][^,]*)
    )?(?=,|\Z)""",
    re.VERBOSE,
)
KEYWORDS = frozenset(("and", "or", "not", "in", "like", "is", "null", "true", "false"))


class Word(Record):
    """``kind`` is text, quoted, number, name, sign, a keyword itself, or end; ``value`` is without its quotes."""

    kind: str
    value: str
    at: int


class Source(Record):
    """What a person typed, and after which option."""

    option: str
    text: str

    def words(self) -> list[Word]:
        if len(self.text) > LONGEST:
            raise UsageError(f"{len(self.text)} characters are more than {LONGEST}", where=self.option)
        tokens = []
        at = 0
        while self.text[at:].strip():
            match = _WORD.match(self.text, at)
            if match is None:
                raise self._strange(at)
            tokens.append(_word(match))
            at = match.end()
        return [*tokens, Word("end", "", len(self.text.rstrip()))]

    def names(self) -> list[Word]:
        """The parts of a comma-separated list: each a name as it is or in quotes, perhaps with a minus before it."""
        if len(self.text) > LONGEST:
            raise UsageError(f"{len(self.text)} characters are more than {LONGEST}", where=self.option)
        tokens = []
        at = 0
        while True:
            match = _LISTED.match(self.text, at)
            if match is None:
                raise self._strange(at)
            tokens.append(_listed(match))
            if match.end() == len(self.text):
                return tokens
            at = match.end() + 1

    def mistake(self, what: str, at: int, hint: str = "") -> UsageError:
        """The text, a mark under the place, and what was expected there."""
        plain = "".join(letter if letter.isprintable() else " " for letter in self.text)
        start = max(0, at - _SHOWN)
        head = ("..." if start else "") + plain[start:at]
        tail = plain[at : at + _SHOWN] + ("..." if len(plain) > at + _SHOWN else "")
        return UsageError(what, where=self.option, answer=f"{head}{tail}\n{' ' * _columns(head)}^", hint=hint)

    def _strange(self, at: int) -> UsageError:
        at += len(self.text[at:]) - len(self.text[at:].lstrip())
        letter = self.text[at]
        if letter in "'\"`":
            return self.mistake(f"unclosed {letter}", at, f"write a {letter} inside the text twice")
        if letter.isdigit() or letter in "+.":
            return self.mistake("this is not a number", at, "write a name that begins with a digit in `backticks`")
        return self.mistake(f"unexpected {letter!r}", at, "write a name with such a character in `backticks`")


def _listed(match: re.Match[str]) -> Word:
    """``kind`` is the sign before the name."""
    sign, quoted, plain = match["sign"], match["quoted"], match["plain"]
    if quoted is not None:
        return Word(sign, quoted[1:-1].replace(quoted[0] * 2, quoted[0]), match.start("quoted"))
    return Word(sign, (plain or "").rstrip(), match.start("plain") if plain else match.end())


def _word(match: re.Match[str]) -> Word:
    kind = str(match.lastgroup)
    value, at = match[kind], match.start(kind)
    if kind in ("text", "quoted"):
        quote = value[0]
        return Word(kind, value[1:-1].replace(quote * 2, quote), at)
    if kind == "name" and value.lower() in KEYWORDS:
        return Word(value.lower(), value, at)
    return Word(kind, value, at)


def _columns(text: str) -> int:
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)
