"""CSV that a spreadsheet may open: a cell of text never becomes a formula."""

from __future__ import annotations

import json

from holdfast.present import terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

# Also in their full-width forms, which some spreadsheets take for the same.
_BEGIN_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NEED_QUOTES = frozenset(',;"\t\n\r\x0b\x0c')


def as_csv(value: Any, columns: Sequence[str] | None = None, isatty: bool = False) -> str:
    """Objects under a line of titles: all keys of all rows, or ``columns``. Lists are rows without titles."""
    rows = value if isinstance(value, list) else [value]
    objects = [row for row in rows if isinstance(row, dict)]
    keys = list(columns) if columns is not None else sorted({key for row in objects for key in row})
    head = line(keys, isatty) if objects or columns is not None else ""
    return head + "".join(line(_cells(row, keys), isatty) for row in rows if row is not None)


def line(cells: Iterable[Any], isatty: bool = False) -> str:
    return ",".join(_cell(cell, isatty) for cell in cells) + "\n"


def _cells(row: Any, keys: Sequence[str]) -> list[Any]:
    if isinstance(row, dict):
        return [row.get(key) for key in keys]
    return row if isinstance(row, list) else [row]


def _cell(value: Any, isatty: bool) -> str:
    """Numbers are numbers, minus signs included; text that a spreadsheet would calculate gets an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if _may_be_formula(text):
        text = f"'{text}"
    if isatty:
        text = terminal.show(text)
    return '"' + text.replace('"', '""') + '"' if _NEED_QUOTES & set(text) else text


def _may_be_formula(text: str) -> bool:
    """Spreadsheets pass over line breaks, blanks and what cannot be seen before they look for a formula."""
    if text[:1] in ("\t", "\r", "\n"):
        return True
    begin = next((at for at, char in enumerate(text) if char.isprintable() and not char.isspace()), len(text))
    return text.startswith(_BEGIN_FORMULAS, begin)
