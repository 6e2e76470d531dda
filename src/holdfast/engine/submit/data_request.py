"""Which data a run gets: the rows of its run configuration and of ``--data``."""

from __future__ import annotations

import os

from holdfast.amlconfig.data_entries import complaint
from holdfast.amlconfig.types import DataEntry
from holdfast.errors import ConfigError, UsageError
from holdfast.model import Data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = "data"  # of the run's folder: links to data that lies outside the project


def requested(
    root: str, folder: str, options: Sequence[str | DataEntry], entries: Sequence[DataEntry], file: str
) -> tuple[Data, ...]:
    """``options``, given in ``folder`` as NAME=PATH, PATH or an entry, replace a row of that name in the file."""
    typed = [_option(root, folder, text, options) for text in options]
    names = [data.name for data in typed]
    kept = [_configured(root, entry, file) for entry in entries if entry.name not in names]
    rows = (*typed, *kept)
    for position, data in enumerate(rows):
        problem = complaint(data.name, [other.name for other in rows[:position]])
        if problem:
            raise UsageError(problem, where="--data", hint="--data NAME=PATH")
    return rows


def _option(root: str, folder: str, text: str | DataEntry, options: Sequence[str | DataEntry]) -> Data:
    if isinstance(text, DataEntry):
        return _configured(root, text, "--data")
    name, equals, path = text.partition("=")
    path = path if equals else name
    name = name if equals else os.path.basename(os.path.normpath(path))
    if not path or list(options).count(text) > 1:
        raise UsageError(f"--data {text}: no path, or given twice", hint="--data NAME=PATH")
    data = _data(root, folder, name, path)
    if data is None:
        raise UsageError(f"--data {text}: no such file or folder", where=os.path.join(folder, path))
    return data


def _configured(root: str, entry: DataEntry, file: str) -> Data:
    if entry.path_on_target:
        return Data(entry.name, path_on_target=entry.path_on_target, link=_free_link(root, entry.name, file))
    data = _data(root, root, entry.name, entry.path, file)
    if data is None:
        hint = "fetch or create it; if it is on the target already: {path_on_target: /path/there}"
        raise ConfigError(f"data {entry.name}: no such file or folder: {entry.path}", where=file, hint=hint)
    return data


def _data(root: str, folder: str, name: str, path: str, file: str = "--data") -> Data | None:
    """A path in the project is linked at its own place there, any other at data/NAME."""
    written = os.path.normpath(os.path.join(folder, os.path.expanduser(path)))
    try:
        source = os.path.realpath(written)
    except ValueError:  # a NUL, or a character that no file name has
        return None
    if not os.path.exists(source):
        return None
    inside = os.path.relpath(written, root)
    is_inside = not (inside == os.curdir or inside.startswith(os.pardir) or os.path.isabs(inside))
    if os.path.realpath(root) == source or os.path.realpath(root).startswith(os.path.join(source, "")):
        raise ConfigError(f"data {name}: this is the project itself, or a folder above it", where=source)
    return Data(name, source=source, link=inside if is_inside else _free_link(root, name, file))


def _free_link(root: str, name: str, file: str) -> str:
    link = f"{FOLDER}/{name}"
    if os.path.lexists(os.path.join(root, link)):
        hint = "give the data another name, or name this path itself as data"
        raise ConfigError(f"data {name}: the project has {link} itself", where=file, hint=hint)
    return link
