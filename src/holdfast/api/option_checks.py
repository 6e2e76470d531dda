"""Refuses arguments of the Python API that are of a wrong type, before anything is submitted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast import labels
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.api.script_submit import Options

_MAPPINGS = ("env", "data", "tags")
_SEQUENCES = ("env_files", "secrets", "links")


def check_options(function: str, options: Options) -> None:
    """A keyword that the function does not have is the ``TypeError`` that Python raises."""
    from holdfast.api.script_submit import Options as Known

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in options:
        if name not in Known.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    for name in _MAPPINGS:
        if not isinstance(given.get(name, {}), Mapping):
            raise _wrong(name, given[name], f"{name}={{'name': 'value'}}")
    for name in _SEQUENCES:
        if not isinstance(given.get(name, ()), (list, tuple, set, frozenset)):
            raise _wrong(name, given[name], f"{name}=[...]")
    if not isinstance(given.get("progress", True), bool) and not callable(given["progress"]):
        raise _wrong("progress", given["progress"], "a function, or progress=True for a bar")
    for name in ("project", "python"):
        if name in given:
            checked_path(name, given[name])
    labels.checked_tags(given.get("tags", {}))
    check_words([f"{name}={value}" for name, value in given.get("env", {}).items()])


def check_words(texts: Iterable[str]) -> None:
    """No system passes a NUL to a program."""
    for word in texts:
        if "\0" in word:
            raise UsageError("an argument or variable contains a NUL character", answer=ascii(word)[:200])


def checked_path(name: str, value: object) -> str:
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path:
        raise _wrong(name, value, "a path is text or a pathlib.Path")
    return path


def _wrong(name: str, value: object, hint: str) -> UsageError:
    return UsageError(f"{name} cannot be of the type {type(value).__name__}", answer=ascii(value)[:200], hint=hint)
