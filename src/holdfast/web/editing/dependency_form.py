"""Files that declare packages as a form: one field for each plain value, and one to add to each list.

Values are changed in the text where they stand, so comments and order survive. What is written is read again: a change
that would say anything else is refused.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from holdfast.amlconfig.dependencies import CONDA_KEYS, SPARK_KEYS
from holdfast.amlconfig.emit import scalar
from holdfast.amlconfig.nodes import Mapping, Scalar, Sequence
from holdfast.amlconfig.source import Source, codec
from holdfast.environments import requirement
from holdfast.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.amlconfig.nodes import Node

_CONDA = ("conda_dependencies.yml", "environment.yml", "environment.yaml", "conda.yaml", "conda.yml")
_SPARK = ("spark_dependencies.yml",)
_REQUIREMENTS = re.compile(r"requirements[\w.-]*\.txt")
_REQUIREMENT = re.compile(r"(\s*)([^\s#-][^#\\]*?)(\s+#.*)?")
_ADD = "+ "


class Line(NamedTuple):
    """A plain value: ``key`` names its place; ``begin`` and ``end`` are where its text stands in a line."""

    key: str
    text: str
    number: int
    begin: int
    end: int


def is_one(name: str) -> bool:
    base = os.path.basename(name)
    return base in _CONDA + _SPARK or _REQUIREMENTS.fullmatch(base) is not None


def values(path: str, name: str) -> list[tuple[str, str, bool]]:
    """Key, value, and whether the file has it; the keys of new values begin with a plus sign."""
    lines = _read(path, name, None)
    lists = ["requirements"] if _is_text(name) else _lists(lines)
    return [*((line.key, line.text, True) for line in lines), *((f"{_ADD}{kind}", "", False) for kind in lists)]


def changed(path: str, name: str, changes: dict[str, str]) -> bytes:
    """The file with these values: an empty one is removed with its line."""
    with open(path, "rb") as source:
        data = source.read()
    for value in changes.values():
        _check(name, value)
    encoding, mark = codec(data)
    text = data[len(mark) :].decode(encoding)
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = text.splitlines(keepends=True)
    before = _read(path, name, None)
    known = {line.key: line for line in before}
    last = {_list_of(line.key): line for line in before}
    wanted = [changes.get(line.key, line.text).strip() for line in before]
    for key, value in _from_below(changes, known, last):
        if key in known:
            _put(rows, known[key], value, name)
        elif value:
            _add(rows, last.get(key.removeprefix(_ADD)), value, newline, name)
            wanted.append(value)
    result = mark + "".join(rows).encode(encoding)
    if sorted(line.text for line in _read(path, name, result)) != sorted(value for value in wanted if value):
        raise _refusal(name)
    return result


def _from_below(changes: dict[str, str], known: dict[str, Line], last: dict[str, Line]) -> list[tuple[str, str]]:
    """The last line first, so that no change moves what is yet to be changed."""

    def number(key: str) -> tuple[int, bool]:
        line = known.get(key) or last.get(key.removeprefix(_ADD))
        return (line.number if line is not None else 1 << 30, key.startswith(_ADD))

    return [(key, changes[key].strip()) for key in sorted(changes, key=number, reverse=True)]


def _check(name: str, value: str) -> None:
    """Options such as ``-r`` are no requirement."""
    if not value.isprintable():
        raise UsageError("a value is one line of text", where=name)
    if not _is_text(name) or not value.strip():
        return
    try:
        requirement.parse(value)
    except requirement.NotARequirementError as error:
        hint = "write name==1.2, or a URL of a wheel"
        raise UsageError(f"{value!r} is not a requirement", where=name, answer=str(error), hint=hint) from error


def _add(rows: list[str], last: Line | None, value: str, newline: str, name: str) -> None:
    """After the last one of its list, as that one is written."""
    if _is_text(name):
        if rows and not rows[-1].endswith("\n"):
            rows[-1] += newline
        rows.append(f"{value}{newline}")
        return
    head = re.match(r"\s*-\s+", rows[last.number]) if last is not None else None
    if last is None or head is None or head.end() != last.begin:
        raise _refusal(name)
    if not rows[last.number].endswith("\n"):
        rows[last.number] += newline
    rows.insert(last.number + 1, f"{head[0]}{scalar(value)}{newline}")


def _put(rows: list[str], line: Line, value: str, name: str) -> None:
    row = rows[line.number]
    head, tail = row[: line.begin], row[line.end :]
    if value:
        old = row[line.begin]
        quote = old if old in "'\"" and not _is_text(name) else ""
        rows[line.number] = head + (value if _is_text(name) else scalar(value, quote)) + tail
    elif re.fullmatch(r"\s*(-\s+)?", head) and re.fullmatch(r"\s*(\s#.*)?", tail.rstrip("\r\n")):
        del rows[line.number]
    else:
        raise _refusal(name)


def _refusal(name: str) -> ConfigError:
    what = "this cannot be changed in the form without affecting other lines"
    return ConfigError(what, where=name, hint="change it in the text; the file is as it was")


def _is_text(name: str) -> bool:
    return name.endswith(".txt")


def _read(path: str, name: str, data: bytes | None) -> list[Line]:
    """The plain values of the file, or of what it would be; none where it cannot be read."""
    if _is_text(name):
        return list(_requirements(path, data))
    keys = SPARK_KEYS if os.path.basename(name) in _SPARK else CONDA_KEYS
    source = Source(path, name, keys, data=data)
    return [] if source.root is None else list(_leaves(source, source.root, ""))


def _requirements(path: str, data: bytes | None) -> Iterator[Line]:
    """Lines of a package each; options and what goes over several lines stay to the text."""
    if data is None:
        with open(path, "rb") as source:
            data = source.read()
    encoding, mark = codec(data)
    is_continued = False
    for number, row in enumerate(data[len(mark) :].decode(encoding, "replace").splitlines()):
        match = None if is_continued else _REQUIREMENT.fullmatch(row)
        is_continued = row.endswith("\\")
        if match:
            yield Line(f"{number + 1}", match[2], number, match.start(2), match.end(2))


def _leaves(source: Source, node: Node, key: str) -> Iterator[Line]:
    if isinstance(node, Scalar):
        begin, end = source.at(node.line, node.column), source.at(node.end_line, node.end_column)
        if begin[0] == end[0] and begin[1] < end[1] and not node.is_null and node.text.isprintable():
            yield Line(key, node.text, begin[0], begin[1], end[1])
    elif isinstance(node, Sequence):
        maps = sum(isinstance(item, Mapping) for item in node.items)
        for number, item in enumerate(node.items, start=1):
            is_numbered = isinstance(item, Scalar) or maps > 1
            yield from _leaves(source, item, f"{key} {number}" if is_numbered else key)
    elif isinstance(node, Mapping):
        for name, value in node.entries:
            yield from _leaves(source, value, f"{key}.{name.text}" if key else name.text)


def _list_of(key: str) -> str:
    return key.rpartition(" ")[0]


def _lists(lines: list[Line]) -> list[str]:
    """Those of plain values."""
    return list(dict.fromkeys(_list_of(line.key) for line in lines if line.key.rpartition(" ")[2].isdigit()))
