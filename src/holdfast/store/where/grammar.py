"""The grammar, all of it:

    any     = all { "or" all }
    all     = one { "and" one }
    one     = "not" one | "(" any ")" | name test
    test    = ("=" | "!=" | "<" | "<=" | ">" | ">=") value
            | ["not"] "in" "(" value { "," value } ")"
            | ["not"] "like" text | ["not"] "~" text
            | "is" ["not"] "null"
    value   = number | text | "true" | "false"
    order   = ["-"] name { "," ["-"] name }

A name is a word, or anything in backticks or double quotes; in a list of names it may also contain anything but a
comma. Text is in single quotes, and where only a value may
stand, in double quotes too.
"""

from __future__ import annotations

from holdfast.record import Record
from holdfast.store.where.tokens import Source, Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from holdfast.errors import UsageError

    Value: TypeAlias = bool | int | float | str

DEEPEST = 20
_MOST_TESTS = 200
_MOST_VALUES = 400
_LONGEST_PATTERN = 200
_MOST_ORDERS = 16  # at 64, joined, SQLite 3.40 crashes
_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Name(Record):
    text: str
    at: int


class Test(Record):
    """``sign`` is a comparison, ``in``, ``like``, ``~`` or ``null``; ``at`` is where the values begin."""

    __test__ = False  # no test of pytest's

    name: Name
    sign: str
    values: tuple[Value, ...] = ()
    at: int = 0


class Not(Record):
    part: Node


class Many(Record):
    """``joint`` is AND or OR."""

    joint: str
    parts: tuple[Node, ...]


Node: TypeAlias = "Test | Not | Many"


class Order(Record):
    name: Name
    descending: bool


def read_where(text: str) -> tuple[Source, Node]:
    source = Source("--where", text)
    parser = _Parser(source)
    node = parser.any_of(0)
    parser.end("and, or")
    return source, node


def read_sort(text: str) -> tuple[Source, list[Order]]:
    source, tokens = _listed("--sort", text)
    if len(tokens) > _MOST_ORDERS:
        raise source.mistake(f"more than {_MOST_ORDERS} names", tokens[_MOST_ORDERS].at)
    return source, [Order(Name(word.value, word.at), word.kind == "-") for word in tokens]


def read_names(option: str, text: str) -> tuple[Source, list[Name]]:
    """The columns of ``--columns a,b``."""
    source, tokens = _listed(option, text)
    return source, [Name(word.kind + word.value, word.at) for word in tokens]


def _listed(option: str, text: str) -> tuple[Source, list[Word]]:
    source = Source(option, text)
    tokens = source.names()
    for word in tokens:
        if not word.value:
            what, hint = "expected the name of a field, a parameter or a metric", "names are separated by commas"
            raise source.mistake(what, word.at, hint)
    return source, tokens


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._words = source.words()
        self._at = 0
        self._tests = 0
        self._values = 0

    def any_of(self, depth: int) -> Node:
        return self._joined("or", "OR", self._all_of, depth)

    def _all_of(self, depth: int) -> Node:
        return self._joined("and", "AND", self._one, depth)

    def _joined(self, word: str, joint: str, part: object, depth: int) -> Node:
        parts = [part(depth)]  # type: ignore[operator]
        while self.take(word):
            parts.append(part(depth))  # type: ignore[operator]
        return parts[0] if len(parts) == 1 else Many(joint, tuple(parts))

    def _one(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self._source.mistake(f"nested deeper than {DEEPEST} levels", self._now.at)
        if self.take("not"):
            return Not(self._one(depth + 1))
        if self.take("sign", "("):
            node = self.any_of(depth + 1)
            self._need(")")
            return node
        self._tests += 1
        if self._tests > _MOST_TESTS:
            raise self._source.mistake(f"more than {_MOST_TESTS} comparisons", self._now.at)
        return self._test(self.name())

    def name(self) -> Name:
        word = self._now
        if word.kind not in ("name", "quoted") or not word.value:
            hint = "write a name that is a keyword or contains spaces in `backticks`"
            raise self._expected("the name of a field, a parameter or a metric", hint)
        self._at += 1
        return Name(word.value, word.at)

    def take(self, kind: str, value: str | None = None) -> bool:
        word = self._now
        if word.kind != kind or (value is not None and word.value != value):
            return False
        self._at += 1
        return True

    def end(self, else_what: str) -> None:
        if self._now.kind != "end":
            raise self._expected(f"{else_what} or the end")

    def _test(self, name: Name) -> Node:
        word = self._now
        if word.kind == "sign" and word.value in _COMPARISONS:
            self._at += 1
            return Test(name, _COMPARISONS[word.value], (self._value(),), self._before)
        if self.take("is"):
            denied = self.take("not")
            if not self.take("null"):
                raise self._expected("null" if denied else "null or not null")
            return Not(Test(name, "null")) if denied else Test(name, "null")
        denied = self.take("not")
        test = self._matching(name)
        return Not(test) if denied else test

    def _matching(self, name: Name) -> Test:
        if self.take("in"):
            self._need("(")
            at = self._now.at
            values = [self._value()]
            while self.take("sign", ","):
                values.append(self._value())
            self._need(")")
            return Test(name, "in", tuple(values), at)
        for kind, value in (("like", None), ("sign", "~")):
            if self.take(kind, value):
                return Test(name, value or kind, (self._pattern(),), self._before)
        raise self._expected("=, !=, <, <=, >, >=, in, like, ~ or is null")

    def _value(self) -> Value:
        word = self._now
        self._values += 1
        if self._values > _MOST_VALUES:
            raise self._source.mistake(f"more than {_MOST_VALUES} values", word.at)
        if word.kind in ("true", "false"):
            self._at += 1
            return word.kind == "true"
        if word.kind in ("text", "quoted") and not self._source.text.startswith("`", word.at):
            self._at += 1
            return word.value
        if word.kind == "number":
            self._at += 1
            return self._number(word)
        hint = ""
        if word.kind == "name":
            hint = f"write text in single quotes: '{word.value}'"
        elif word.kind == "null":
            hint = "is null, is not null"
        raise self._expected("a number, 'text', true or false", hint)

    def _number(self, word: Word) -> int | float:
        digits = word.value.lstrip("+-")
        if digits.isdigit() and digits.isascii() and len(digits) < 19:
            return int(word.value)
        value = float(word.value)
        if value - value != 0:
            raise self._source.mistake("this number is too large", word.at)
        return value

    def _pattern(self) -> str:
        at = self._now.at
        if self._now.kind not in ("text", "quoted"):
            raise self._expected("a pattern in single quotes")
        value = str(self._value())
        if len(value) > _LONGEST_PATTERN:
            raise self._source.mistake(f"this pattern is longer than {_LONGEST_PATTERN} characters", at)
        return value

    def _need(self, sign: str) -> None:
        if not self.take("sign", sign):
            raise self._expected(sign)

    def _expected(self, what: str, hint: str = "") -> UsageError:
        actual = "the end of the text" if self._now.kind == "end" else repr(self._now.value)
        return self._source.mistake(f"expected {what}, found {actual}", self._now.at, hint)

    @property
    def _now(self) -> Word:
        return self._words[self._at]

    @property
    def _before(self) -> int:
        return self._words[self._at - 1].at
