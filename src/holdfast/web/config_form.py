"""``.compute`` and ``.runconfig`` files as a form: one field for each key with a plain value.

Values are changed in the text where they stand, so comments and order survive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.amlconfig import compute, runconfig
from holdfast.amlconfig.nodes import Scalar
from holdfast.amlconfig.runconfig import MAPS
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.write import updated
from holdfast.web import project_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.amlconfig.emit import Setting

_KEYS = {".compute": compute.KEYS, ".runconfig": runconfig.KEYS}
_BOUND = ("password",)  # written by attach alone


class Field(NamedTuple):
    """``kind``: flag or text. ``is_set``: the file has the key."""

    name: str
    value: str
    kind: str
    is_set: bool


def fields(root: str, name: str) -> list[Field]:
    """Empty for other files, and for one that cannot be read as a map."""
    keys = next((keys for ending, keys in _KEYS.items() if name.endswith(ending)), None)
    if keys is None:
        return []
    path = project_files.inside(root, name)
    source = Source(path, name, tuple(keys), MAPS)
    if source.root is None:
        return []
    known = {key.text: node for key, node in source.root.entries}
    names = [*known, *(key for key in sorted(keys) if key not in known)]
    rows = []
    for key in names:
        node = known.get(key)
        if key in _BOUND or not (node is None or isinstance(node, Scalar)):
            continue
        text = "" if node is None or node.is_null else node.text
        kind = "flag" if text in ("true", "false") else "text"
        rows.append(Field(key, text, kind, node is not None))
    return rows


def save(root: str, name: str, digest: str, values: Mapping[str, str]) -> None:
    """Change the keys whose value is another one; an empty value removes the key."""
    project_files.unchanged(root, name, digest)
    before = {field.name: field for field in fields(root, name)}
    changes: dict[str, Setting | None] = {
        key: _typed(text) for key, text in values.items() if key in before and text.strip() != before[key].value
    }
    if changes:
        project_files.replace(root, name, updated(project_files.inside(root, name), changes))


def _typed(text: str) -> Setting | None:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return text or None
