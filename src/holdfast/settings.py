"""Settings of the user for all projects: a small JSON file in the store. A project cannot set these."""

from __future__ import annotations

from holdfast.errors import ConfigError, UsageError
from holdfast.planning import seconds
from holdfast.record import Record
from holdfast.runner import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Setting(Record):
    help: str
    default: str
    check: Callable[[str], object]


def _days(name: str) -> Callable[[str], float]:
    return lambda text: seconds(text + "d" if text.isascii() and text.isdigit() else text, name) / 86400


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1.0
    if not 0 <= hours < 1e6:
        raise ConfigError(f"{text!r} is not a number of hours", where="agentGpuHours", hint="for example 4 or 0.5")
    return hours


def keep_limit(text: str, where: str = "keepLimit") -> int:
    """Bytes; 0 keeps nothing."""
    from holdfast.quantities import parse_size

    size = 0 if text.strip() == "0" else parse_size(text)
    if size is None:
        raise ConfigError(f"{text!r} is not a size", where=where, hint="for example 10GB; 0 keeps only outputs/")
    return size


def keep_files(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise ConfigError(f"{text!r} is not a number of files", where="keepFiles", hint="for example 20000")
    return int(text)


SETTINGS: Mapping[str, Setting] = {
    "defaultTarget": Setting("Run configuration or target of a submit without -c.", "local", str),
    "onEnd": Setting("Command to run, or URL to post to, whenever a run ends.", "", str),
    "keepWork": Setting(
        "How long the working directory of a run that did not complete is kept.", "7d", _days("keepWork")
    ),
    "keepLimit": Setting(
        "Bytes of files outside outputs/ that a run keeps as results; 0 keeps none.", "2GB", keep_limit
    ),
    "keepFiles": Setting("Number of files outside outputs/ that a run keeps as results.", "5000", keep_files),
    "keepRuns": Setting(
        "How long ended runs are kept before they are moved to the trash; empty keeps them forever.",
        "",
        lambda text: text and _days("keepRuns")(text),
    ),
    "keepTrash": Setting("How long deleted runs stay in the trash.", "14d", _days("keepTrash")),
    "agentGpuHours": Setting("GPU-hours that AI agents may use through holdfast mcp in any 24 hours.", "0", _hours),
}


def read(path: str) -> dict[str, str]:
    """All settings, with defaults where the user has said nothing."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    values.update(_file(path))
    return values


def problems(path: str) -> list[str]:
    """What in the file is not a setting as ``change`` writes it; names that a newer version knows are let be."""
    try:
        stored = _object(path)
    except ConfigError as error:
        return [f"{error.what} {error.answer}".rstrip()]
    result = [f"{name} is not a string" for name, value in stored.items() if not isinstance(value, str)]
    for name, value in stored.items():
        try:
            if isinstance(value, str) and name in SETTINGS:
                SETTINGS[name].check(value)
        except ConfigError as error:
            result.append(f"{name}: {error.what}")
    return result


def days(path: str, name: str) -> float | None:
    text = read(path)[name]
    return _days(name)(text) if text else None


def change(path: str, name: str, value: str | None) -> dict[str, str]:
    """What the file holds after setting (or, with None, forgetting) one name; the caller writes it."""
    if name not in SETTINGS:
        raise UsageError(f"unknown setting {name!r}", hint=f"settings: {', '.join(SETTINGS)}")
    stored = _file(path)
    stored.pop(name, None)
    if value is not None:
        SETTINGS[name].check(value)
        stored[name] = value
    return stored


def _file(path: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in _object(path).items()}


def _object(path: str) -> dict[str, object]:
    try:
        with open(path, encoding="utf-8") as source:
            document = json_text.loads(source.read())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigError(
            "your settings cannot be read", where=path, answer=str(error), hint="fix or delete the file"
        ) from error
    if not isinstance(document, dict):
        raise ConfigError("your settings are not a JSON object", where=path, hint="fix or delete the file")
    return document
