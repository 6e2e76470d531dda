"""Refuses arguments of the Python API that are of a wrong type, before anything is submitted."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast import labels
from holdfast.amlconfig.types import DataEntry
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.api.script_submit import Options, StrPath

_MAPPINGS = ("env", "data", "tags")
_SEQUENCES = ("env_files", "secrets", "links")
_SWITCHES = ("require_gpu", "scalars", "capture", "keep_work", "skip_unreadable", "large")
_TEXTS = ("target", "config", "environment", "notify")
_ENVIRONMENTS = ("project", "active", "none")


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
        for item in given.get(name, ()):
            checked_path(f"an item of {name}", item)
    for name in _SWITCHES:
        if not isinstance(given.get(name, True), bool):
            raise _wrong(name, given[name], f"{name}=True or {name}=False")
    for name in _TEXTS:
        if name in given:
            checked_text(name, given[name])
    if given.get("environment", "none") not in _ENVIRONMENTS:
        hint = "one of project, active and none"
        raise UsageError(f"unknown environment: {given['environment']!a}", hint=hint)
    if not isinstance(given.get("progress", True), bool) and not callable(given["progress"]):
        raise _wrong("progress", given["progress"], "a function, or progress=True for a bar")
    for name in ("project", "python"):
        if name in given:
            checked_path(name, given[name])
    data_options(given.get("data", {}))
    labels.checked_tags(given.get("tags", {}))
    for name, value in given.get("env", {}).items():
        _check_variable(name, value)


def _check_variable(name: object, value: object) -> None:
    if not isinstance(name, str) or "=" in name:
        raise UsageError(f"{name!a:.200} is not a valid variable name", where="env", hint="env={'NAME': 'value'}")
    if value is None:
        raise _wrong(f"the variable {name}", value, "leave out a variable that is not to be set")


def script_arguments(values: Iterable[object]) -> list[str]:
    """As text. What Python would show as ``b'...'`` or with an address is a mistake."""
    for at, value in enumerate(values, start=1):
        kind = type(value)
        has_no_text = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
        if has_no_text or callable(value) or isinstance(value, (bytes, bytearray, memoryview)):
            raise _wrong(f"argument {at} of the script", value, "pass text or a number")
    return [str(value) for value in values]


def data_options(data: Mapping[str, StrPath | Mapping[str, str]]) -> tuple[str | DataEntry, ...]:
    """As the engine takes them: NAME=PATH, or an entry for data that is on the target already."""
    options: list[str | DataEntry] = []
    for name, value in data.items():
        if not isinstance(value, Mapping):
            options.append(f"{name}={checked_path(f'the data {name}', value)}")
            continue
        path = value.get("path_on_target")
        if set(value) != {"path_on_target"} or not isinstance(path, str) or not path.startswith(("/", "~/")):
            raise UsageError(
                f"the data {name} has no absolute path on the target",
                answer=ascii(value)[:200],
                hint=f"data={{{name!r}: {{'path_on_target': '/path/there'}}}}",
            )
        options.append(DataEntry(name, path_on_target=path))
    return tuple(options)


def checked_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, f"{name} is text")
    if not value:
        raise UsageError(f"{name} is empty")
    return value


def checked_project(project: StrPath | None) -> str:
    """The folder of a project, by default the current one."""
    folder = os.getcwd() if project is None else checked_path("project", project)
    if not os.path.isdir(folder):
        raise UsageError("there is no such folder", where=folder)
    return folder


def checked_seconds(name: str, value: object) -> None:
    """A limit of time; None for none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    if value is not None and not is_number:
        raise _wrong(name, value, f"{name} is a number of seconds")


def checked_path(name: str, value: object) -> str:
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path:
        raise _wrong(name, value, "a path is text or a pathlib.Path")
    return path


def _wrong(name: str, value: object, hint: str) -> UsageError:
    return UsageError(f"{name} cannot be of the type {type(value).__name__}", answer=ascii(value)[:200], hint=hint)
