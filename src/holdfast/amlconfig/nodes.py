"""The tree that both YAML readers build: structure, text and position of every node, without types.

Whether ``3.5`` is a number or ``yes`` a truth value is decided by the key it stands under (``form``), so a
version stays the text its author wrote. Lines and columns count from 0, ends are exclusive.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Node: TypeAlias = "Scalar | Sequence | Mapping"

MAX_DEPTH = 16


class UncertainError(Exception):
    """The hand-written readers leave this text to the full YAML reader."""


class Scalar:
    """A value as text; ``quoted`` tells ``"null"`` from ``null``. An absent value is an unquoted ``""``."""

    __slots__ = ("column", "end_column", "end_line", "line", "quoted", "text")

    def __init__(self, text: str, quoted: bool, start: tuple[int, int], end: tuple[int, int]) -> None:
        self.text = text
        self.quoted = quoted
        self.line, self.column = start
        self.end_line, self.end_column = end

    @property
    def is_null(self) -> bool:
        return not self.quoted and self.text in ("", "~", "null", "Null", "NULL")


class Sequence:
    """A list; ``flow`` when written in brackets."""

    __slots__ = ("column", "end_column", "end_line", "flow", "items", "line")

    def __init__(self, flow: bool, line: int, column: int) -> None:
        self.items: list[Node] = []
        self.flow = flow
        self.line = self.end_line = line
        self.column = self.end_column = column


class Mapping:
    """A map with its entries as written, repeated keys included; ``flow`` when written in braces."""

    __slots__ = ("column", "end_column", "end_line", "entries", "flow", "line")

    def __init__(self, flow: bool, line: int, column: int) -> None:
        self.entries: list[tuple[Scalar, Node]] = []
        self.flow = flow
        self.line = self.end_line = line
        self.column = self.end_column = column


def no_entries() -> Mapping:
    """What a file without content, or a key without a map, is read as."""
    return Mapping(False, 0, 0)
