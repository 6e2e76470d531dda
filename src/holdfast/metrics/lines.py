"""Reads the JSON lines beside a binary metrics file: names, and values that are not plain numbers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

Value: TypeAlias = "float | int | bool | str | list[Value] | dict[str, Value] | None"

_DEEPEST = 100  # levels of lists in a value; what a target sends must not exhaust the stack of those who walk it
_LARGEST_BITS = 1023  # of an integer that is less than the greatest float
_SHORT = 200
_MOST_KNOWN = 4096


class LineReader:
    """The lines of a .jsonl by where they start; a line that several records name is read once."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines
        self._values: dict[int, Value] = {}
        self.missing = 0

    def value(self, offset: int) -> Value:
        if offset not in self._values:
            content = self.content(offset)
            self.missing += "value" not in content
            self._values[offset] = content.get("value")
        return self._values[offset]

    def content(self, offset: int) -> dict[str, Value]:
        end = self._lines.find(b"\n", offset)
        if end < 0 or (offset and self._lines[offset - 1] != ord("\n")):
            return {}
        line = self._lines[offset:end]
        if line in _known_lines:
            return _known_lines[line]
        content = _content(line)
        if len(line) < _SHORT and len(_known_lines) < _MOST_KNOWN:
            _known_lines[line] = content
        return content


def notes(lines: bytes, kind: str, most: int) -> dict[str, Value]:
    """The parameters or tags that a script set: lines of their own, of which the last one of a name counts.

    No more than ``most`` names.
    """
    beginning = f'{{"{kind}": '.encode()
    result: dict[str, Value] = {}
    if beginning not in lines:
        return result
    for line in lines[: lines.rfind(b"\n") + 1].splitlines():
        content = _content(line) if line.startswith(beginning) else {}
        name, value = content.get(kind), content.get("value")
        if (
            isinstance(name, str)
            and isinstance(value, (bool, int, float, str))
            and (name in result or len(result) < most)
        ):
            result[name] = value
    return result


# The same names come in run after run, and reading their lines was two fifths of reading the metrics of a short run.
_known_lines: dict[bytes, dict[str, Value]] = {}


def _content(line: bytes) -> dict[str, Value]:
    import json

    try:
        content = json.loads(line)
        if b"\\ud" in line.lower():
            # Half of a surrogate pair would later break every print and every database.
            content = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
        content = _representable(content)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) and not _nested_beyond(content, _DEEPEST) else {}


def _representable(value: Value) -> Value:
    """The value with text in the place of every integer that is too large for a float: it is compared and drawn."""
    if isinstance(value, dict):
        return {name: _representable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_representable(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _LARGEST_BITS:
        return str(value)
    return value


def _nested_beyond(value: Value, levels: int) -> bool:
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list):
        return False
    return levels == 0 or any(_nested_beyond(item, levels - 1) for item in items)
