"""The quick YAML reader: the flat shape that nearly all files of ``aml_config`` have, or ``UncertainError``.

The full YAML library costs a tenth of a second to import, more than a whole submit may take. This reader takes
one-line scalars, block maps and lists, and simple flow values. It never guesses: whatever it accepts,
the full reader reads the same (a property test holds the two against each other), and on anything else it gives up.
"""

from __future__ import annotations

from holdfast.amlconfig.flow import Flow
from holdfast.amlconfig.nodes import MAX_DEPTH, Mapping, Scalar, Sequence, UncertainError, no_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.flow import Slips
    from holdfast.amlconfig.nodes import Node

# A key longer than this is no longer a "simple key" in YAML.
_LONGEST_KEY = 500


def read_plain(lines: list[str], slips: Slips | None = None) -> Mapping:
    """The block map in ``lines``; raises ``UncertainError``. With ``slips``, those of ``Flow`` are read and noted."""
    reader = _Block(lines, slips)
    if not reader.rows:
        return no_entries()
    root = reader.mapping(reader.rows[0][1])
    if reader.at < len(reader.rows):
        raise UncertainError
    return root


class _Block:
    """``rows`` are the lines that say something, as (line, column, content); ``at`` is the next one to read."""

    def __init__(self, lines: list[str], slips: Slips | None) -> None:
        self.lines = lines
        self.slips = slips
        self.rows = _rows(lines)
        self.at = 0
        self.depth = 0

    def mapping(self, column: int) -> Mapping:
        self._go_deeper()
        node = Mapping(False, self.rows[self.at][0], column)
        while self.at < len(self.rows):
            line, start, content = self.rows[self.at]
            if start < column or (start == column and _is_dashed(content)):
                break
            if start > column:
                raise UncertainError
            key, after = _key(line, start, content)
            node.entries.append((key, self._value(line, start, content, after, column, dashes_may_align=True)))
        self._close(node)
        return node

    def sequence(self, column: int) -> Sequence:
        self._go_deeper()
        node = Sequence(False, self.rows[self.at][0], column)
        while self.at < len(self.rows):
            line, start, content = self.rows[self.at]
            if start < column or (start == column and not _is_dashed(content)):
                break
            if start > column:
                raise UncertainError
            node.items.append(self._item(line, start, content))
        self._close(node)
        return node

    def _item(self, line: int, start: int, content: str) -> Node:
        after = 1
        while after < len(content) and content[after] == " ":
            after += 1
        rest = content[after:]
        if _is_dashed(rest):
            raise UncertainError
        if rest and rest[0] not in "#[{" and _is_entry(rest):
            self.rows[self.at] = (line, start + after, rest)
            return self.mapping(start + after)
        return self._value(line, start, content, after, start, dashes_may_align=False)

    def _value(self, line: int, start: int, content: str, after: int, parent: int, *, dashes_may_align: bool) -> Node:
        """The value after ``key:`` or ``-``: the rest of the line, or the block below it."""
        self.at += 1
        rest = content[after:].lstrip(" ")
        column = start + len(content) - len(rest)
        if not rest or rest[0] == "#":
            return self._block_below(line, start + after, parent, dashes_may_align)
        if rest[0] in "[{":
            flow = Flow(self.lines, line, column, self.slips)
            node = flow.value()
            _expect_end(self.lines[flow.line][flow.column :])
            while self.at < len(self.rows) and self.rows[self.at][0] <= flow.line:
                self.at += 1
        elif rest[0] in "\"'":
            node = _quoted(line, column, rest)
            _expect_end(rest[node.end_column - column :])
        else:
            node = _plain(line, column, rest)
        return node

    def _block_below(self, line: int, column: int, parent: int, dashes_may_align: bool) -> Node:
        if self.at < len(self.rows):
            _, start, content = self.rows[self.at]
            if _is_dashed(content) and (start > parent or (dashes_may_align and start == parent)):
                return self.sequence(start)
            if start > parent:
                return self.mapping(start)
        return Scalar("", False, (line, column), (line, column))

    def _go_deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UncertainError

    def _close(self, node: Mapping | Sequence) -> None:
        self.depth -= 1
        if not (node.entries if isinstance(node, Mapping) else node.items):
            raise UncertainError
        last = node.entries[-1][1] if isinstance(node, Mapping) else node.items[-1]
        node.end_line, node.end_column = last.end_line, last.end_column


def _rows(lines: list[str]) -> list[tuple[int, int, str]]:
    rows = []
    for number, line in enumerate(lines):
        content = line.strip(" ")
        if not content:
            continue
        if content[0] == "#":
            if not content.replace("\t", " ").isprintable():
                raise UncertainError
            continue
        if not content.isprintable() or content.startswith(("---", "...")):
            raise UncertainError
        rows.append((number, len(line) - len(line.lstrip(" ")), content))
    return rows


def _is_dashed(content: str) -> bool:
    return content[:2] == "- " or content == "-"


def _is_entry(content: str) -> bool:
    if content[0] in "\"'":
        end = content.find(content[0], 1)
        return content[end + 1 :].lstrip(" ")[:1] == ":"
    return ": " in content or content[-1] == ":"


def _key(line: int, start: int, content: str) -> tuple[Scalar, int]:
    """The key, and how much of ``content`` it and its colon take."""
    if content[0] in "\"'":
        key = _quoted(line, start, content)
        colon = key.end_column - start
        while content[colon : colon + 1] == " ":
            colon += 1
    else:
        colon = content.find(": ")
        if colon < 0:
            colon = len(content) - 1
        key = _plain(line, start, content[:colon])
        if key.text != content[:colon].rstrip(" "):
            raise UncertainError
    if content[colon : colon + 1] != ":" or content[colon + 1 : colon + 2] not in ("", " ") or colon > _LONGEST_KEY:
        raise UncertainError
    return key, colon + 1


def _quoted(line: int, column: int, rest: str) -> Scalar:
    quote = rest[0]
    end = rest.find(quote, 1)
    text = rest[1:end]
    if end < 0 or (quote == '"' and "\\" in text) or rest[end + 1 : end + 2] == quote:
        raise UncertainError
    return Scalar(text, True, (line, column), (line, column + end + 1))


def _plain(line: int, column: int, rest: str) -> Scalar:
    comment = rest.find(" #")
    text = (rest if comment < 0 else rest[:comment]).rstrip(" ")
    if not text or text[0] in ",[]{}#&*!|>'\"%@`?:" or ": " in text or text[-1] == ":" or _is_dashed(text):
        raise UncertainError
    return Scalar(text, False, (line, column), (line, column + len(text)))


def _expect_end(rest: str) -> None:
    content = rest.lstrip(" ")
    if content and not (content[0] == "#" and len(content) < len(rest)):
        raise UncertainError
