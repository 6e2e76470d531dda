"""Which file of a project declares the environment of a run.

The first of these that is there:

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

from holdfast.environments.files import exists, read_text
from holdfast.errors import ConfigError
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal, TypeAlias

    from holdfast.amlconfig.types import RunConfig

    Kind: TypeAlias = Literal["conda", "uv.lock", "pylock", "pyproject", "requirements", "script"]

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
    found = next(_present(root, script), None)
    if found is None:
        return None
    file, kind = found
    passed_over = tuple(name for name in _OTHERS if exists(root, name)) if kind == "conda" else ()
    return Declared(file, kind, "the first declaration found in this project", passed_over)


def _present(root: str, script: str) -> Iterator[tuple[str, Kind]]:
    for file, kind in _FILES:
        if exists(root, file) and (kind != "pyproject" or _is_declared_in_pyproject(root)):
            yield file, kind
    # The header begins with this very line (PEP 723).
    if script.endswith(".py") and exists(root, script) and "\n# /// script\n" in f"\n{read_text(root, script)}":
        yield script, "script"


def _is_declared_in_pyproject(root: str) -> bool:
    if "[project]" not in read_text(root, "pyproject.toml"):
        return False
    from holdfast.environments.pyproject import declares

    return declares(root)
