"""Values as YAML or JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from holdfast.amlconfig.nodes import Scalar, UncertainError
from holdfast.amlconfig.plain import read_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from holdfast.amlconfig.types import Raw

    Setting: TypeAlias = str | int | bool | Sequence[str] | Mapping[str, str]
    Settings: TypeAlias = Mapping[str, Setting | None]

# What some YAML reader takes for something other than text: numbers, times, dates, truth values, null.
_NOT_TEXT = re.compile(
    r"[-+]?(\.?\d[\d_]*(\.[\d_]*)?(e[-+]?\d+)?|0[xob][\da-f_]+|\d+(:\d+)+(\.\d*)?|\.inf|\.nan)"
    r"|\d{4}-\d\d?-\d\d?.*|null|~|true|false|yes|no|on|off|y|n",
    re.IGNORECASE,
)


def entry_lines(name: str, value: Setting | None, indent: str = "") -> list[str]:
    """``name: value``, with a list or map in block form below the key."""
    key = f"{indent}{scalar(name)}:"
    if value is not None and not isinstance(value, (str, int)) and value:
        return [key, *block_lines(value, f"{indent}  " if isinstance(value, Mapping) else indent)]
    return [f"{key} {inline(value)}"]


def block_lines(value: Sequence[str] | Mapping[str, str], indent: str) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{indent}{scalar(name)}: {scalar(text)}" for name, text in value.items()]
    return [f"{indent}- {scalar(text)}" for text in value]


def inline(value: Setting | None, quote: str = "") -> str:
    """A value on one line; text in quotes of the given kind, if any was given and if it can be."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return scalar(value, quote)
    return as_json(value)


def as_json(value: Setting | None) -> str:
    return json.dumps(value, ensure_ascii=False)


def scalar(text: str, quote: str = "") -> str:
    """Text in the given quotes, or plain if every YAML reader will take it for the same text."""
    if quote and text.isprintable() and quote not in text and "\\" not in text:
        return f"{quote}{text}{quote}"
    if not _NOT_TEXT.fullmatch(text) and _reads_plain(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def as_raw(value: Setting) -> Raw:
    """What a reader will find where ``value`` was written."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return inline(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value)


def _reads_plain(text: str) -> bool:
    # A comma or bracket is plain text in a block but not inside brackets, where a person may move it.
    if not text or any(sign in text for sign in ",[]{}"):
        return False
    try:
        node = read_plain([f"k: {text}"]).entries[0][1]
    except UncertainError:
        return False
    return isinstance(node, Scalar) and not node.quoted and node.text == text and text[0] not in "-="
