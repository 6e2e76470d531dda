"""The full YAML reader, on ruamel.yaml's event stream: for files the quick reader leaves to it.

Events instead of a loaded document keep repeated keys, places and the text of scalars, and let us refuse tags,
anchors, aliases and deep nesting before anything is built from them.
"""

from __future__ import annotations

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
)
from ruamel.yaml.reader import ReaderError

from holdfast.amlconfig.nodes import MAX_DEPTH, Mapping, Scalar, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ruamel.yaml.events import Event

    from holdfast.amlconfig.nodes import Node

_LONGEST = 1 << 17  # characters; a second is enough to read them


class RefusedError(Exception):
    """The text is not YAML, or more of it than we want. Line and column count from 0."""

    def __init__(self, line: int, column: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.message = message
        self.hint = hint


def read_full(lines: list[str]) -> Node | None:
    """The only document in ``lines``, ``None`` if there is none; raises ``RefusedError``."""
    if sum(map(len, lines)) > _LONGEST:
        message = f"more than {_LONGEST >> 10} KiB that are not plain 'key: value' lines"
        raise RefusedError(0, 0, message, "remove unrelated content")
    tree = _Tree(lines)
    for event in _events(lines):
        tree.take(event)
    return tree.root


class _Tree:
    """Builds nodes from events without recursion."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.root: Node | None = None
        self.open: list[Mapping | Sequence] = []
        self.keys: list[Scalar | None] = []
        self.documents = 0

    def take(self, event: Event) -> None:
        line, column = event.start_mark.line, event.start_mark.column
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise RefusedError(line, column, "a second document begins here", "keep one, delete the '---' line")
        elif isinstance(event, AliasEvent):
            raise RefusedError(line, column, "aliases (*name) are not read", "write the value itself")
        elif isinstance(event, ScalarEvent):
            self._admit(event)
            self._place(Scalar(event.value, event.style is not None, (line, column), self._end(event)))
        elif isinstance(event, CollectionStartEvent):
            self._admit(event)
            kind = Mapping if isinstance(event, MappingStartEvent) else Sequence
            node = kind(bool(event.flow_style), line, column)
            self._place(node)
            self.open.append(node)
            self.keys.append(None)
        elif isinstance(event, CollectionEndEvent):
            self.keys.pop()
            _close(self.open.pop(), event)

    def _admit(self, event: ScalarEvent | CollectionStartEvent) -> None:
        line, column = event.start_mark.line, event.start_mark.column
        if event.anchor:
            raise RefusedError(line, column, "anchors (&name) are not read", "write the value where it is needed")
        if event.ctag:
            raise RefusedError(line, column, f"tags ({event.ctag}) are not read", "delete the tag")
        if len(self.open) >= MAX_DEPTH:
            raise RefusedError(line, column, f"nested more than {MAX_DEPTH} deep")

    def _end(self, event: ScalarEvent) -> tuple[int, int]:
        line, column = event.end_mark.line, event.end_mark.column
        # A block scalar (| or >) ends, for the library, where the next thing begins.
        while column == 0 and line > event.start_mark.line:
            line -= 1
            column = len(self.lines[line].rstrip())
        return line, column

    def _place(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is not None:
            parent.entries.append((key, node))
            self.keys[-1] = None
        elif isinstance(node, Scalar):
            self.keys[-1] = node
        else:
            raise RefusedError(node.line, node.column, "a list or map used as a key", "put the key in quotes")


def _close(node: Mapping | Sequence, end: Event) -> None:
    # So does a block; for us it ends with its last value.
    inside = [value for _, value in node.entries] if isinstance(node, Mapping) else node.items
    if node.flow or not inside:
        node.end_line, node.end_column = end.end_mark.line, end.end_mark.column
    else:
        node.end_line, node.end_column = inside[-1].end_line, inside[-1].end_column


def _events(lines: list[str]) -> Iterator[Event]:
    try:
        yield from YAML(typ="safe", pure=True).parse("\n".join(lines) + "\n")
    except MarkedYAMLError as error:
        raise _explained(lines, error) from None
    except ReaderError as error:
        before = "\n".join(lines)[: error.position].split("\n")
        message = f"the character #{error.character:04x} is not allowed in a text file"
        raise RefusedError(len(before) - 1, len(before[-1]), message, "delete it") from None
    except (ValueError, OverflowError):  # \U with more than Unicode has
        raise RefusedError(0, 0, "this is not YAML: invalid escape in double quotes") from None


def _explained(lines: list[str], error: MarkedYAMLError) -> RefusedError:
    """The library's complaint at the place that causes it, with the fix where the cause is a known one."""
    problem = str(error.problem or error.context)
    mark, began = error.problem_mark or error.context_mark, error.context_mark or error.problem_mark
    line, column = min(mark.line, len(lines) - 1), mark.column
    if "escape" in problem or "hexadecimal" in problem:
        return RefusedError(line, column, "a single backslash inside double quotes", "write / or \\\\ instead")
    joined = _joined_pair(lines, line) or _joined_pair(lines, line - 1)
    if joined and "flow" not in str(error.context):
        return joined
    if "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip())]:
        return RefusedError(line, 0, "a tab is used as indentation", "indent with spaces")
    if "end of stream" in problem:
        return RefusedError(began.line, began.column, "this quote is never closed", "add the closing quote")
    if "stream end" in problem:
        return RefusedError(began.line, began.column, "this bracket is never closed", "add the closing bracket")
    if "could not find expected ':'" in problem:
        return RefusedError(began.line, began.column, "this line is not 'key: value'", "complete or delete it")
    if "mapping values are not allowed" in problem:
        hint = "indent the line like its neighbours, or quote a value that contains ': '"
        return RefusedError(line, column, "a second ':' or a wrong indentation", hint)
    if "cannot start any token" in problem:
        sign = lines[line][column : column + 1]
        return RefusedError(line, column, f"a value cannot begin with {sign!r}", "put the value in quotes")
    return RefusedError(line, column, f"this is not YAML: {problem}", "write one 'key: value' a line")


def _joined_pair(lines: list[str], line: int) -> RefusedError | None:
    """``key:value``, which YAML reads as one word."""
    word, colon, value = lines[line].partition(":") if line >= 0 else ("", "", "")
    name = word.strip(" \"'")
    if not colon or value[:1] in ("", " ", "/", ":", "\\") or not name.replace("_", "").isalnum():
        return None
    return RefusedError(line, len(word) + 1, "no space after the colon", f"write '{name}: ', then the value")
