"""Configuration files and files that declare packages as a form: one field for each plain value.

Values are changed in the text where they stand, so comments and order survive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.amlconfig import compute, runconfig
from holdfast.amlconfig.nodes import Scalar
from holdfast.amlconfig.runconfig import MAPS
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.write import updated
from holdfast.web.editing import dependency_form, project_files

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
    if dependency_form.is_one(name):
        known = dependency_form.values(project_files.inside(root, name), name)
        return [Field(key, value, "text", is_set) for key, value, is_set in known]
    keys = next((keys for ending, keys in _KEYS.items() if name.endswith(ending)), None)
    if keys is None:
        return []
    path = project_files.inside(root, name)
    source = Source(path, name, tuple(keys), MAPS)
    if source.root is None:
        return []
    given = {key.text: node for key, node in source.root.entries}
    names = [*given, *(key for key in sorted(keys) if key not in given)]
    rows = []
    for key in names:
        node = given.get(key)
        if key in _BOUND or not (node is None or isinstance(node, Scalar)):
            continue
        text = "" if node is None or node.is_null else node.text
        if not text.isprintable():
            continue  # it is changed in the text, which shows it as it is
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
    if dependency_form.is_one(name):
        texts = {key: text for key, text in values.items() if key in before and text.strip() != before[key].value}
        if texts:
            path = project_files.inside(root, name)
            project_files.replace(root, name, dependency_form.changed(path, name, texts))
    elif changes:
        project_files.replace(root, name, updated(project_files.inside(root, name), changes))


def _typed(text: str) -> Setting | None:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return text or None
