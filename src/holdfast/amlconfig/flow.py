"""The quick reader of flow values: ``[$file]``, ``{}``, and the JSON files of early 2017 with their slips.

Strict by default (``UncertainError`` on any doubt). Given a list for ``slips`` it also reads what people and the
original's documentation got wrong, and notes each slip there: a missing comma, a ``.`` typed for a ``,``, and list
items with dashes inside brackets.
"""

from __future__ import annotations

from holdfast.amlconfig.nodes import MAX_DEPTH, Mapping, Scalar, Sequence, UncertainError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from holdfast.amlconfig.nodes import Node

    Slips: TypeAlias = list[tuple[int, int, str, str]]


class Flow:
    """A cursor over ``lines`` that reads one value; afterwards ``line`` and ``column`` are just behind it."""

    def __init__(self, lines: list[str], line: int, column: int, slips: Slips | None = None) -> None:
        self.lines = lines
        self.line = line
        self.column = column
        self.slips = slips
        self.depth = 0

    def value(self) -> Node:
        self._skip_blanks()
        here = self._here()
        if here == "{":
            return self._mapping()
        if here == "[":
            return self._sequence()
        return self._scalar()

    def _mapping(self) -> Mapping:
        node = Mapping(True, self.line, self.column)
        self._open()
        while not self._closed_by("}"):
            key = self._scalar()
            self._take_colon(key)
            node.entries.append((key, self.value()))
            self._separate("}")
        self._close(node)
        return node

    def _sequence(self) -> Sequence:
        node = Sequence(True, self.line, self.column)
        self._open()
        while not self._closed_by("]"):
            if self._at_dash():
                if not node.items:
                    self._slip(self.line, self.column, "'-' inside brackets", "write [a, b], or one '- a' a line")
                self.column += 1
            node.items.append(self.value())
            self._separate("]")
        self._close(node)
        return node

    def _scalar(self) -> Scalar:
        here = self._here()
        if here in ("'", '"'):
            return self._quoted(here)
        return self._plain()

    def _quoted(self, quote: str) -> Scalar:
        line, start = self.lines[self.line], self.column
        end = start + 1
        while end < len(line) and line[end] != quote:
            end += 2 if quote == '"' and line[end] == "\\" else 1
        text = line[start + 1 : end]
        if end >= len(line) or line[end + 1 : end + 2] == "'" or not text.isprintable():
            raise UncertainError
        if quote == '"' and "\\" in text:
            text = self._unescaped(line[start : end + 1])
        self.column = end + 1
        return Scalar(text, True, (self.line, start), (self.line, self.column))

    def _unescaped(self, literal: str) -> str:
        if self.slips is None:
            raise UncertainError
        import json

        try:
            return str(json.loads(literal))
        except ValueError:
            raise UncertainError from None

    def _plain(self) -> Scalar:
        line, start = self.lines[self.line], self.column
        end = start
        while end < len(line) and line[end] not in ",[]{}:#\"'\t":
            end += 1
        text = line[start:end].rstrip(" ")
        dashed = text.find(" - ")
        if dashed > 0 and self.slips is not None:
            text = text[:dashed].rstrip(" ")
        if not text or text[0] in "&*!|>%@`?" or text[:2] in ("-", "- ") or not text.isprintable():
            raise UncertainError
        if line[end : end + 1] == "#" or (line[end : end + 1] == ":" and line[end + 1 : end + 2] not in ("", " ")):
            raise UncertainError
        if (
            self.slips is not None
            and text[-1] == "."
            and (text[:-1] in ("true", "false", "null") or text[:-1].isdigit())
        ):
            text = text[:-1]
        self.column = start + len(text)
        return Scalar(text, False, (self.line, start), (self.line, self.column))

    def _take_colon(self, key: Scalar) -> None:
        self._skip_blanks()
        # JSON allows the colon on a line of its own, YAML does not.
        if self._here() != ":" or (self.line > key.end_line and self.slips is None):
            raise UncertainError
        self.column += 1
        if not key.quoted and self.lines[self.line][self.column : self.column + 1] not in ("", " "):
            raise UncertainError

    def _at_dash(self) -> bool:
        return self.lines[self.line][self.column : self.column + 2] in ("-", "- ", "-\t")

    def _separate(self, closing: str) -> None:
        """Skip the comma after an entry, or what was typed in its place."""
        line, column = self.line, self.column
        self._skip_blanks()
        here = self._here()
        if here == ",":
            self.column += 1
        elif here == closing:
            return
        elif self.slips is None or not here:
            raise UncertainError
        elif here == ".":
            self.column += 1
            self._slip(line, column, "'.' where a ',' belongs", "write ',' instead of '.'")
        elif closing == "]" and self._at_dash():
            return
        elif here == '"' and self.line > line:
            self._slip(line, column, "no ',' after this value", "put a ',' at the end of this line")
        else:
            raise UncertainError

    def _slip(self, line: int, column: int, message: str, hint: str) -> None:
        if self.slips is None:
            raise UncertainError
        self.slips.append((line, column, message, hint))

    def _open(self) -> None:
        self.column += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UncertainError

    def _closed_by(self, closing: str) -> bool:
        self._skip_blanks()
        here = self._here()
        if not here or here == ",":
            raise UncertainError
        return here == closing

    def _close(self, node: Mapping | Sequence) -> None:
        self.column += 1
        self.depth -= 1
        node.end_line, node.end_column = self.line, self.column

    def _here(self) -> str:
        return self.lines[self.line][self.column : self.column + 1] if self.line < len(self.lines) else ""

    def _skip_blanks(self) -> None:
        while self.line < len(self.lines):
            line = self.lines[self.line]
            while self.column < len(line) and line[self.column] in " \t":
                self.column += 1
            if self.column < len(line):
                return
            if self.line + 1 == len(self.lines):
                return
            self.line += 1
            self.column = 0
