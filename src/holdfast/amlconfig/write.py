"""New ``aml_config`` files in the original's shape, and changes that touch nothing else.

A change replaces the characters of one value, or adds or removes whole lines, in the text as it is; comments, order,
quotes, line ends, byte order mark and a missing final newline stay. No YAML emitter promises that. The
result is read back before it is saved: if any other key would read differently, the file is left alone.
"""

from __future__ import annotations

import os

from holdfast.amlconfig import compute, runconfig
from holdfast.amlconfig.edit import edited
from holdfast.amlconfig.emit import as_raw, entry_lines
from holdfast.amlconfig.findings import raise_errors
from holdfast.amlconfig.form import raw
from holdfast.amlconfig.runconfig import MAPS
from holdfast.amlconfig.source import Source, codec
from holdfast.errors import ConfigError
from holdfast.runner.store.files import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.emit import Settings
    from holdfast.amlconfig.types import ComputeTarget, Raw

_KEYS = (*compute.KEYS, *runconfig.KEYS)


def new_compute(settings: Settings) -> str:
    """The text of a ``.compute`` file: keys in alphabetical order, ``None`` as null."""
    return _new(settings)


def reached_by(target: ComputeTarget) -> dict[str, str | int | bool]:
    """The settings by which a machine is reached, under the names that they have in the file."""
    values = {
        "type": target.type,
        "address": target.address or "",
        "username": target.username,
        "port": target.port,
        "hostKey": target.host_key,
        "privateKeyFile": target.private_key_file,
        "root": target.root,
    }
    return {name: value for name, value in values.items() if value is not None}


def new_runconfig(target: str, settings: Settings | None = None) -> str:
    """The text of a ``.runconfig`` file for a target, as the original made it but for plain Python scripts."""
    defaults: Settings = {
        "ArgumentVector": ["$file"],
        "CondaDependenciesFile": "aml_config/conda_dependencies.yml",
        "EnvironmentVariables": None,
        "Framework": "Python",
        "PrepareEnvironment": False,
        "SparkDependenciesFile": "aml_config/spark_dependencies.yml",
        "Target": target,
        "TrackedRun": True,
        "UseSampling": True,
    }
    return _new({**defaults, **(settings or {})})


def update(path: str | os.PathLike[str], changes: Settings) -> None:
    """Set each key of ``changes`` in the file, or remove it where the value is ``None``; all or nothing."""
    path = os.path.realpath(path)
    save(path, updated(path, changes))


def updated(path: str, changes: Settings) -> bytes:
    """What the file would hold with each key of ``changes`` set, or removed where the value is ``None``."""
    source = Source(path, path, _KEYS, MAPS)
    raise_errors(source.findings)
    data = source.data
    for name, value in changes.items():
        wanted = _content(source)
        wanted.pop(name, None)
        if value is not None:
            wanted[name] = as_raw(value)
        encoding, mark = codec(data)
        text = edited(source, data[len(mark) :].decode(encoding), name, value)
        data = mark + text.encode(encoding)
        source = Source(path, path, _KEYS, MAPS, data=data)
        if source.root is None or _content(source) != wanted:
            what = f"{name} cannot be changed without touching other lines of this file"
            raise ConfigError(what, where=path, hint="make the change in an editor; the file is as it was")
    return data


def present(path: str) -> set[str]:
    """The keys to which the file gives a value."""
    return {name for name, value in _content(Source(path, path, _KEYS, MAPS)).items() if value is not None}


def save(path: str, data: bytes) -> None:
    """Write a file so that a crash leaves the old or the new one, never half of it."""
    try:
        write_whole(path, data, 0o666, keep_mode=True)
    except OSError as error:
        raise ConfigError("this file cannot be written", where=path, answer=str(error.strerror)) from None


def _new(settings: Settings) -> str:
    return "".join(f"{line}\n" for name in sorted(settings) for line in entry_lines(name, settings[name]))


def _content(source: Source) -> dict[str, Raw]:
    return {key.text: raw(value) for key, value in source.root.entries} if source.root else {}
