"""The key ``data`` of a run configuration: one path, a list of paths, or a map of names to paths."""

from __future__ import annotations

from holdfast.amlconfig.form import Form
from holdfast.amlconfig.nodes import Mapping, Scalar, Sequence
from holdfast.amlconfig.types import DataEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.nodes import Node

_KEYS = ("path", "path_on_target")
_EXAMPLE = "write data: and below it one indented 'NAME: path/to/folder' a line"


def read(form: Form, name: str) -> tuple[DataEntry, ...]:
    entries: list[DataEntry] = []
    for label, node, key in _rows(form, form.nodes[name]):
        entry = _entry(form, label, node)
        if entry is None:
            continue
        problem = complaint(entry.name, [other.name for other in entries])
        if problem:
            form.source.error(key.line, key.column, problem, _EXAMPLE)
        else:
            entries.append(entry)
    return tuple(entries)


def complaint(name: str, others: list[str]) -> str:
    """Why this cannot be the name of data beside the others; empty if it can. It names a link and a variable."""
    plain = name.replace("_", "").replace(".", "").replace("-", "")
    if not (plain.isascii() and plain.isalnum()) or name.startswith((".", "-")) or len(name) > 100:
        return f"{name!r} cannot be the name of data: use letters, digits, '_', '-' and '.'"
    twin = next((other for other in others if _variable(other) == _variable(name)), None)
    return "" if twin is None else f"the data {twin!r} and {name!r} would have the same variable"


def _variable(name: str) -> str:
    return name.upper().replace("-", "_").replace(".", "_")


def _rows(form: Form, node: Node) -> list[tuple[str, Node, Node]]:
    """Name (empty: after the path), value, and where findings point to."""
    if isinstance(node, Sequence):
        return [("", item, item) for item in node.items]
    if isinstance(node, Mapping) and not any(key.text in _KEYS for key, _ in node.entries):
        named = Form(form.source, node, ())  # warns of repeated names
        return [(name, value, named.keys[name]) for name, value in named.nodes.items()]
    return [("", node, node)]


def _entry(form: Form, label: str, node: Node) -> DataEntry | None:
    if isinstance(node, Scalar):
        path = node.text.strip()
        if not node.is_null and path:
            return DataEntry(label or _last(path), path=path)
    elif isinstance(node, Mapping):
        inner = Form(form.source, node, _KEYS)
        inner.warn_unknown()
        here, there = inner.text("path"), inner.text("path_on_target")
        if here and not there:
            return DataEntry(label or _last(here), path=here)
        if there and not here and there.startswith(("/", "~/")):
            return DataEntry(label or _last(there), path_on_target=there)
    message = "data takes a path, or path_on_target: and an absolute path on the target"
    form.source.error(node.line, node.column, message, _EXAMPLE)
    return None


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
