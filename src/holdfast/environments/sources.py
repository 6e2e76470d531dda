"""Which file of a project declares the environment of a run.

In a folder without ``aml_config`` the first of these that names a package: the header of the script (PEP 723), then
``choice.FILES`` in their order. In a project with ``aml_config`` the first of these that is there, as before; files of
another user are passed over in both:

1. the file that the run configuration names (``CondaDependenciesFile``)
2. ``aml_config/conda_dependencies.yml``
3. ``environment.yml``, ``environment.yaml``, ``conda.yaml``
4. ``uv.lock``
5. ``pylock.toml``
6. ``pyproject.toml`` with a ``[project]`` that has dependencies or is a package
7. ``requirements.txt``
8. the header of the script (PEP 723)
"""

from __future__ import annotations

import os
import re

from holdfast.environments.choice import FILES, has_header, is_bare, is_usable
from holdfast.environments.files import exists, read_text
from holdfast.errors import ConfigError
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal, TypeAlias

    from holdfast.amlconfig.types import RunConfig

    Kind: TypeAlias = 'Literal["conda", "uv.lock", "pylock", "pyproject", "requirements", "script"]'

DEFAULT = "aml_config/conda_dependencies.yml"
_FILES: tuple[tuple[str, Kind], ...] = (
    (DEFAULT, "conda"),
    ("environment.yml", "conda"),
    ("environment.yaml", "conda"),
    ("conda.yaml", "conda"),
    ("uv.lock", "uv.lock"),
    ("pylock.toml", "pylock"),
    ("pyproject.toml", "pyproject"),
    ("requirements.txt", "requirements"),
)
_KINDS: dict[str, Kind] = {os.path.basename(file): kind for file, kind in _FILES}
# Options of requirements.txt that ask for no package; -r and -e do.
_OPTION = re.compile(r"-(?!r|e|-requirement\b|-editable\b)")
# What declares packages by being there, so that nothing has to be read to tell.
_OTHERS = ("uv.lock", "pylock.toml", "requirements.txt")


class Declared(Record):
    """The file, how it is to be read, why it is this one, and what else is there and therefore not read."""

    file: str
    kind: Kind
    why: str
    passed_over: tuple[str, ...] = ()


def find(root: str, config: RunConfig | None, script: str) -> Declared | None:
    """Where the environment is declared, ``None`` if nowhere. ``script`` is relative to the project."""
    named = config.conda_dependencies_file if config else None
    # The original wrote the default into every run configuration, whether the file was there or not.
    if config and named and named != DEFAULT:
        if not exists(root, named):
            what = f"{named}, which run configuration {config.name} names as CondaDependenciesFile, does not exist"
            raise ConfigError(what, where=f"aml_config/{config.name}.runconfig", hint="correct or delete that line")
        return Declared(named, "conda", f"run configuration {config.name} names it")
    if is_bare(root):
        return next(_declaring(root, script), None)
    declaration = next(_present(root, script), None)
    if declaration is None:
        return None
    file, kind = declaration
    passed_over = tuple(name for name in _OTHERS if exists(root, name)) if kind == "conda" else ()
    return Declared(file, kind, "the first declaration found in this project", passed_over)


def _declaring(root: str, script: str) -> Iterator[Declared]:
    """The files that name a package; an empty one is passed over."""
    if has_header(root, script) and _names_package(root, script, "script"):
        yield Declared(script, "script", "its header declares dependencies")
    for file in FILES:
        if is_usable(root, file) and _names_package(root, file, _KINDS[file]):
            yield Declared(file, _KINDS[file], "the first file in this folder that declares dependencies")


def _names_package(root: str, file: str, kind: Kind) -> bool:
    if kind in ("uv.lock", "pylock"):
        return kind == "pylock" or is_usable(root, "pyproject.toml")  # uv reads its lock only beside that
    if kind == "requirements":
        lines = (line.strip() for line in read_text(root, file).split("\n"))
        return any(line and not line.startswith("#") and not _OPTION.match(line) for line in lines)
    from holdfast.environments import pyproject

    if kind == "pyproject":
        return pyproject.names_package(root)
    if kind == "script":
        return pyproject.header_names_package(root, file)
    from holdfast.environments.conda import read_conda_file

    spec, findings = read_conda_file(root, file)
    return bool(spec.conda or spec.pip) or any(finding.severity == "error" for finding in findings)


def _present(root: str, script: str) -> Iterator[tuple[str, Kind]]:
    for file, kind in _FILES:
        if is_usable(root, file) and (kind != "pyproject" or _is_declared_in_pyproject(root)):
            yield file, kind
    # The header begins with this very line (PEP 723).
    if script.endswith(".py") and exists(root, script) and "\n# /// script\n" in f"\n{read_text(root, script)}":
        yield script, "script"


def _is_declared_in_pyproject(root: str) -> bool:
    from holdfast.environments.pyproject import declares

    return declares(root)
