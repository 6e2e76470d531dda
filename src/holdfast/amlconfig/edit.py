"""Changes one value in the text of a file, at the position that the parsed tree gives."""

from __future__ import annotations

import collections.abc
import re

from holdfast.amlconfig.emit import as_json, block_lines, entry_lines, inline
from holdfast.amlconfig.nodes import Mapping, Scalar, Sequence, no_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.emit import Setting
    from holdfast.amlconfig.nodes import Node
    from holdfast.amlconfig.source import Source

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def edited(source: Source, text: str, name: str, value: Setting | None) -> str:
    """``text`` with one top-level key set, or removed for ``None``. ``source`` is what was read from it."""
    editor = _Editor(source, text)
    places = [number for number, (key, _) in enumerate(editor.entries) if key.text == name]
    if value is None:
        for number in reversed(places):
            editor.remove(number)
    elif places:
        editor.replace(places[-1], value)
    else:
        editor.add(name, value)
    return "".join(editor.lines)


class _Editor:
    """``lines`` keep their line ends; positions are those of the file, not of the repaired text."""

    def __init__(self, source: Source, text: str) -> None:
        self.source = source
        self.lines: list[str] = _LINE.findall(text)
        self.root = source.root or no_entries()
        self.entries = self.root.entries
        ends = [line[len(line.rstrip("\r\n")) :] for line in self.lines]
        self.newline = max(sorted(set(ends) - {""}), key=ends.count, default="\n")

    def replace(self, number: int, value: Setting) -> None:
        key, old = self.entries[number]
        if self.root.flow:
            self._splice(old, as_json(value))
        elif old.line > key.line:
            self._replace_below(key, old, value)
        elif isinstance(value, (str, int)) or not value or not isinstance(old, Scalar):
            self._splice(old, inline(value, self._quote_of(old)))
        else:
            self._splice(old, "")
            self.lines[key.line] = self._without_blanks_at_end(key.line)
            self._insert(key.line + 1, block_lines(value, self._indent(key, value)))

    def remove(self, number: int) -> None:
        key, old = self.entries[number]
        if not self.root.flow:
            self._drop_lines(key.line, old.end_line)
        elif number + 1 < len(self.entries):
            following = self.entries[number + 1][0]
            self._cut((key.line, key.column), (following.line, following.column))
        else:
            before = self.entries[number - 1][1] if number else None
            start = (before.end_line, before.end_column) if before else (key.line, key.column)
            self._cut(start, (old.end_line, old.end_column))
        del self.entries[number]

    def add(self, name: str, value: Setting) -> None:
        if self.root.flow:
            self._add_flow(f"{as_json(name)}: {as_json(value)}")
            return
        names = [key.text for key, _ in self.entries]
        # The original's own files are in alphabetical order; those of people need not be.
        after = sum(other < name for other in names) if names == sorted(names) else len(names)
        indent = " " * self.root.column if self.entries else ""
        if after:
            line = self.entries[after - 1][1].end_line + 1
        else:
            line = self.entries[0][0].line if self.entries else len(self.lines)
        self._insert(line, entry_lines(name, value, indent))

    def _add_flow(self, entry: str) -> None:
        if not self.entries:
            at = self.source.at(self.root.line, self.root.column)
            self._cut((at[0], at[1] + 1), (at[0], at[1] + 1), entry)
            return
        key, last = self.entries[-1]
        own_line = key.line > self.root.line
        gap = self.newline + self.lines[key.line][: key.column] if own_line else " "
        end = (last.end_line, last.end_column)
        self._cut(end, end, f",{gap}{entry}")

    def _replace_below(self, key: Scalar, old: Node, value: Setting) -> None:
        """The old value is a block under its key: a list or map takes its place, a scalar goes up to the key."""
        as_before = isinstance(old, Mapping if isinstance(value, collections.abc.Mapping) else Sequence)
        indent = " " * old.column if as_before else self._indent(key, value)
        self._drop_lines(old.line, old.end_line)
        if isinstance(value, (str, int)) or not value:
            colon = self.lines[key.line].index(":", self.source.at(key.end_line, key.end_column)[1]) + 1
            self._cut((key.line, colon), (key.line, colon), f" {inline(value)}")
        else:
            self._insert(old.line, block_lines(value, indent))

    def _splice(self, old: Node, text: str) -> None:
        """Replace a value on its key's line by ``text``."""
        start = self.source.at(old.line, old.column)
        if text and self.lines[start[0]][: start[1]].endswith(":"):
            text = f" {text}"
        self._cut(start, self.source.at(old.end_line, old.end_column), text)

    def _cut(self, start: tuple[int, int], end: tuple[int, int], text: str = "") -> None:
        head = self.lines[start[0]][: start[1]]
        tail = self.lines[end[0]][end[1] :]
        self.lines[start[0] : end[0] + 1] = [head + text + tail]

    def _insert(self, line: int, new: list[str]) -> None:
        whole = [f"{text}{self.newline}" for text in new]
        if line and not self.lines[line - 1].endswith(("\r", "\n")):
            self.lines[line - 1] += self.newline
            whole[-1] = new[-1]
        self.lines[line:line] = whole

    def _drop_lines(self, first: int, last: int) -> None:
        lost_end = last + 1 == len(self.lines) and not self.lines[last].endswith(("\r", "\n"))
        del self.lines[first : last + 1]
        if lost_end and self.lines:
            self.lines[-1] = self.lines[-1].rstrip("\r\n")

    def _indent(self, key: Scalar, value: Setting) -> str:
        return " " * (key.column + 2 if isinstance(value, collections.abc.Mapping) else key.column)

    def _quote_of(self, old: Node) -> str:
        if not isinstance(old, Scalar) or not old.quoted:
            return ""
        line, column = self.source.at(old.line, old.column)
        quote = self.lines[line][column : column + 1]
        return quote if quote in ("'", '"') else ""

    def _without_blanks_at_end(self, line: int) -> str:
        content = self.lines[line].rstrip("\r\n")
        return content.rstrip(" ") + self.lines[line][len(content) :]
