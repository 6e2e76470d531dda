"""How a command's result is printed: JSON, coloured JSON, table, TSV, CSV or YAML.

JSON is pure: indented by two, keys in ASCII order, NaN and infinities as null. Characters that would act on a
terminal, or that the stream cannot encode, are written as JSON escapes, so it reads back to the same value anywhere.
TSV and tables are for people and pipelines: nested values are compact JSON in TSV and left out of tables.
"""

from __future__ import annotations

import math
import sys

from holdfast.present import terminal
from holdfast.runner import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, TextIO

_RIGHT_ALIGNED = (int, float)
_NARROWEST = 8


def emit(
    value: Any,
    *,
    fmt: str | None = None,
    query: str | None = None,
    stream: TextIO | None = None,
    isatty: bool | None = None,
    columns: Sequence[str] | None = None,
    capitals: bool = False,
) -> None:
    """Print ``value`` in format ``fmt``: by default a table on a terminal and JSON into a pipe.

    ``columns`` names the keys a table shows, in order; it is ignored for a ``query``, which has made its own shape.
    ``capitals``: titles of a table begin with a capital letter, as the original's do; else they are the keys.
    """
    stream = sys.stdout if stream is None else stream
    isatty = terminal.is_tty(stream) if isatty is None else isatty
    if query is not None:
        from holdfast.present.jmespath_query import search

        value = search(query, finite(value))
        columns = None
    fmt = fmt or ("table" if isatty else "json")
    if fmt == "tsv":
        _write(stream, as_tsv(value, isatty))
    elif fmt == "csv":
        from holdfast.present.csv_table import as_csv

        _write(stream, as_csv(value, columns, isatty))
    elif fmt == "table":
        _write(stream, as_table(value, columns, terminal.width(stream) if isatty else None, capitals=capitals))
    elif fmt == "yaml":
        _write(stream, as_yaml(value))
    else:
        text = as_json(value, stream.encoding or "utf-8")
        if fmt == "jsonc" and isatty and terminal.use_colour(stream):
            text = _coloured(text)
        _write(stream, text)


def as_json(value: Any, encoding: str = "utf-8") -> str:
    text = _dumps(value, indent=2)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = _dumps(value, indent=2, ensure_ascii=True)
    return text + "\n"


def as_tsv(value: Any, isatty: bool = False) -> str:
    """One line a row. Rows of objects have the same columns: all keys of all rows, in ASCII order."""
    if isinstance(value, str):  # asked for by itself, so it is wanted as it is
        lines = [terminal.show(line) for line in value.split("\n")] if isatty else [value]
        return "\n".join(lines) + "\n"
    rows = value if isinstance(value, list) else [value]
    keys = _keys(row for row in rows if isinstance(row, dict))
    return "".join("\t".join(_tsv_cell(cell) for cell in _cells(row, keys)) + "\n" for row in rows if row is not None)


def as_yaml(value: Any) -> str:
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.representer import SafeRepresenter

    class QuotingRepresenter(SafeRepresenter):
        pass

    QuotingRepresenter.add_representer(str, _yaml_text)
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.Representer = QuotingRepresenter
    out = StringIO()
    # A round trip through JSON leaves only what YAML writes without tags, and sorts the keys.
    yaml.dump(json_text.loads(_dumps(value)), out)
    # Only text in quotes holds such characters, and there these escapes are YAML's too.
    return out.getvalue().removesuffix("...\n").translate(_ESCAPES)


def as_table(
    value: Any, columns: Sequence[str] | None = None, width: int | None = None, *, capitals: bool = False
) -> str:
    """A list of objects as a table, one object as ``key : value`` lines, a list of words under one title.

    Lines longer than ``width`` are cut; without a width nothing is.
    """
    if isinstance(value, dict):
        return _key_value_lines(value, columns, width)
    if not isinstance(value, list):
        return "" if value is None else f"{_table_cell(value)}\n"
    if not value:
        return ""
    rows = [row if isinstance(row, dict) else {"result": _joined(row)} for row in value]
    keys = list(columns) if columns is not None else [key for key in _keys(rows) if _has_something(rows, key)]
    return _lay_out(rows, keys, width, capitals)


def finite(value: Any) -> Any:
    """The same value with NaN and infinities as None: JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def _dumps(value: Any, *, indent: int | None = None, ensure_ascii: bool = False) -> str:
    import json

    separators = None if indent else (",", ":")
    try:
        text = json.dumps(
            value, indent=indent, separators=separators, ensure_ascii=ensure_ascii, sort_keys=True, allow_nan=False
        )
    except ValueError:  # NaN or infinity somewhere: rare, so looked for only now
        return _dumps(finite(value), indent=indent, ensure_ascii=ensure_ascii)
    return text if text.isascii() and "\x7f" not in text else text.translate(_ESCAPES)


def _yaml_text(representer: Any, text: str) -> Any:
    # Older YAML readers take 1:02:03 for a number in base 60 and `no` for false: what is not a plain word is quoted.
    plain = text.replace("_", "").isalnum() and text[0].isalpha() and text.lower() not in _YAML_WORDS
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


def _tsv_cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, str):
        for char, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
            value = value.replace(char, escape)
        return terminal.show(value)
    return _dumps(value)


def _cells(row: Any, keys: Sequence[str]) -> list[Any]:
    if isinstance(row, dict):
        return [row.get(key) for key in keys]
    return row if isinstance(row, list) else [row]


def _keys(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({key for row in rows for key in row})


def _key_value_lines(value: Mapping[str, Any], columns: Sequence[str] | None, width: int | None) -> str:
    # Keys are right-aligned so that the line contains `state : Running`, which old scripts look for.
    keys = list(columns) if columns is not None else sorted(value)
    titles = [terminal.show(key) for key in keys]
    widest = max(map(terminal.display_width, titles), default=0)
    lines = []
    for key, title in zip(keys, titles, strict=True):
        cell = _dumps(value[key]) if isinstance(value.get(key), (list, dict)) else _table_cell(value.get(key))
        line = f"{' ' * (widest - terminal.display_width(title))}{title} : {cell}".rstrip()
        lines.append(line if width is None else terminal.clip(line, width))
    return "".join(f"{line}\n" for line in lines)


def _joined(row: Any) -> Any:
    return "  ".join(_table_cell(cell) for cell in row) if isinstance(row, list) else row


def _has_something(rows: Iterable[Mapping[str, Any]], key: str) -> bool:
    return any(row.get(key) is not None and not isinstance(row[key], (list, dict)) for row in rows)


def _lay_out(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], width: int | None, capitals: bool) -> str:
    titles = [terminal.show(key[:1].upper() + key[1:] if capitals else key) for key in keys]
    grid = [[_table_cell(row.get(key)) for key in keys] for row in rows]
    widths = [max(map(terminal.display_width, column)) for column in zip(titles, *grid, strict=True)]
    right = [_is_numeric(row.get(key) for row in rows) for key in keys]
    if width is not None:
        widths = _narrowed(widths, width)
    lines = []
    for cells in (titles, ["-" * columns for columns in widths], *grid):
        line = "  ".join(map(_aligned, cells, widths, right)).rstrip()
        lines.append(line if width is None else terminal.clip(line, width))
    return "".join(f"{line}\n" for line in lines)


def _table_cell(value: Any) -> str:
    if value is None or isinstance(value, (list, dict)):
        return ""
    if isinstance(value, float):
        return _short_number(value)
    return terminal.show(str(value))


def _short_number(value: float) -> str:
    if not math.isfinite(value):
        return ""
    if 1e6 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.6g}"


def _is_numeric(values: Iterable[Any]) -> bool:
    scalars = [value for value in values if value is not None and not isinstance(value, (list, dict))]
    return bool(scalars) and all(isinstance(v, _RIGHT_ALIGNED) and not isinstance(v, bool) for v in scalars)


def _narrowed(widths: list[int], width: int) -> list[int]:
    """Take columns from the widest until the table fits or every column is as narrow as is still readable."""
    widths = list(widths)
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0 and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
        excess -= 1
    return widths


def _aligned(cell: str, columns: int, right: bool) -> str:
    cell = terminal.clip(cell, columns)
    blanks = " " * (columns - terminal.display_width(cell))
    return blanks + cell if right else cell + blanks


def _coloured(text: str) -> str:
    import re

    colours = {"key": "34", "text": "32", "number": "36", "word": "35"}
    token = r'(?P<key>"(?:[^"\\]|\\.)*")(?=:)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d[\d.eE+-]*)|(?P<word>[a-z]+)'
    return re.sub(token, lambda match: f"\x1b[{colours[match.lastgroup or 'text']}m{match.group()}\x1b[0m", text)


def _write(stream: TextIO, text: str) -> None:
    """Bytes that were undecodable when they came in go out as the same bytes; the rest as escapes where it must."""
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = _encodable(text, encoding)
        if hasattr(stream, "buffer"):
            stream.flush()
            stream.buffer.write(text.encode(encoding, "surrogateescape"))
            stream.buffer.flush()
            return
    stream.write(text)


def _encodable(text: str, encoding: str) -> str:
    def as_it_can_be(char: str) -> str:
        try:
            char.encode(encoding, "surrogateescape")
        except UnicodeEncodeError:
            return char.encode("ascii", "backslashreplace").decode()
        return char

    return "".join(map(as_it_can_be, text))


_YAML_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")

# DEL and the C1 controls act on a terminal, and the line separators and direction marks mislead the eye.
_ACTING = (
    *(range(0x7F, 0xA0), range(0x61C, 0x61D), range(0x180E, 0x180F), range(0x200B, 0x200C), range(0x200E, 0x2010)),
    *(range(0x2028, 0x202F), range(0x2060, 0x2070), range(0xFEFF, 0xFF00), range(0xFFF9, 0xFFFC)),
)
_ESCAPES = {code: f"\\u{code:04x}" for codes in _ACTING for code in codes}
