"""Decides which Python runs a script: the active environment, the declared one, or the target's own.

Decision 20 has the rules. Most folders declare nothing, so the readers of declarations are imported only where a file
of that name is there.
"""

from __future__ import annotations

import os

from holdfast.errors import ConfigError, UsageError
from holdfast.project import is_confirmed
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.trust.ownership import foreign_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal, TypeAlias

    from holdfast.amlconfig.types import ComputeTarget, RunConfig

    Origin: TypeAlias = Literal["project", "active", "path", "target"]

PROJECT, ACTIVE, NONE = WORDS = ("project", "active", "none")
# Files that declare an environment, in a folder without aml_config: the first one that names a package is used.
FILES = (
    "uv.lock",
    "pylock.toml",
    "pyproject.toml",
    "requirements.txt",
    "environment.yml",
    "environment.yaml",
    "conda.yaml",
    "conda_dependencies.yml",
)
_UNREAD = ("Pipfile", "poetry.lock", "pixi.toml")
_ABOUT_PYTHON = (b"userManagedEnvironment", b"pythonLocation")
_HEADER = b"\n# /// script\n"  # PEP 723
_LARGEST_SCRIPT = 32 << 20
_LARGEST_TARGET = 1 << 20
_BASE = ("base", "root")  # conda's own environment, which it activates in every shell


class Wanted(Record):
    """What the command line says; ``folder`` is where a relative path begins."""

    env: str | None = None
    python: str | None = None
    folder: str = ""


class Choice(Record):
    """``compute`` is the target as this run uses it. ``python``: this interpreter as it is, None: the target's own."""

    origin: Origin
    compute: ComputeTarget
    python: str | None
    what: str
    why: str

    @property
    def line(self) -> str:
        return f"environment: {self.what} ({self.why})"


def choose(
    root: str,
    compute: ComputeTarget,
    config: RunConfig | None,
    script: str,
    wanted: Wanted,
    environ: Mapping[str, str],
) -> Choice | None:
    """What a run of ``script`` uses; None where the files of ``aml_config`` decide, as always (``by_files``)."""
    chooser = _Chooser(root, compute, config, script, environ)
    if wanted.env or wanted.python:
        return _by_option(chooser, wanted)
    if compute.environment:
        said_in = f"{compute.name}.compute"
        if compute.environment == PROJECT:
            return chooser.project(said_in) or chooser.target(f"{said_in}; nothing is declared here")
        if compute.environment == ACTIVE:
            return chooser.active(f"environment: active in {said_in}")
        return chooser.path(compute.environment, root, said_in, f"environment: {compute.environment} in {said_in}")
    if compute.user_managed_environment is not None or not is_bare(root):
        return None
    return _by_default(chooser)


def by_files(
    root: str, compute: ComputeTarget, config: RunConfig | None, script: str, environ: Mapping[str, str]
) -> Choice | None:
    """What the files of ``aml_config`` decide, in words; None where they cannot be read, which is reported later."""
    from holdfast.environments import sources

    key = {True: "true", False: "false", None: ""}[compute.user_managed_environment]
    default = "the default in containers" if compute.kind.in_container else "the default with aml_config"
    said_in = f"userManagedEnvironment: {key} in {compute.name}.compute" if key else default
    chooser = _Chooser(root, compute, config, script, environ)
    managed = is_managed(root, compute)
    try:
        declared = sources.find(root, config, script)
    except ConfigError:
        if managed:
            return None
        declared = None
    if managed:
        return chooser.project(said_in) or chooser.target(f"{said_in}; nothing is declared here")
    unused = f"; {declared.file} is not used, --env project uses it" if declared is not None else ""
    return chooser.target(f"{said_in}{unused}")


def is_managed(root: str, compute: ComputeTarget) -> bool:
    """Whether runs on this target use what the project in ``root`` declares, unless another environment is active.

    With ``aml_config``, local and remote targets use the interpreter as it is where their file says nothing; so did the
    original. In containers it was the other way round.
    """
    if compute.user_managed_environment is None:
        return compute.kind.in_container or is_bare(root)
    return not compute.user_managed_environment


def is_bare(root: str) -> bool:
    """Whether the folder has no ``aml_config`` that decides: such projects keep the rules of the original.

    Locks, targets with ``environment``, which ``attach`` writes, and a ``type: docker`` that says nothing of Python are
    no such project yet.
    """
    folder = os.path.join(root, "aml_config")
    try:
        names = os.listdir(folder)
    except OSError:
        return True
    return bool(names) and not any(_decides(folder, names, name) for name in names)


def _decides(folder: str, names: list[str], name: str) -> bool:
    stem, ending = os.path.splitext(name)
    if ending == ".runconfig":
        return f"{stem}.compute" not in names  # judged with its target
    if ending != ".compute":
        return ending != ".lock"
    try:
        text = untrusted.read_file(os.path.join(folder, name), _LARGEST_TARGET, folder)
    except (OSError, ValueError):
        return True
    lines = text.splitlines()
    if any(line.startswith(b"environment:") for line in lines):
        return False
    keys = {line.partition(b":")[0].strip() for line in lines}
    is_container = any(line.split(b"#")[0].split() == [b"type:", b"docker"] for line in lines)
    return not is_container or f"{stem}.runconfig" in names or not keys.isdisjoint(_ABOUT_PYTHON)


def is_usable(root: str, name: str) -> bool:
    """Whether a file that declares packages is there and may be used."""
    path = os.path.join(root, name)
    return os.path.lexists(path) and not os.path.isdir(path) and (foreign_owner(path) is None or is_confirmed(root))


def foreign_files(root: str) -> list[str]:
    """Files that would declare packages and belong to another user than this one and root."""
    paths = (os.path.join(root, name) for name in (*FILES, "aml_config/conda_dependencies.yml"))
    return [path for path in paths if foreign_owner(path) is not None]


def has_header(root: str, script: str) -> bool:
    """Whether a script has a line that begins a header (PEP 723)."""
    if not script.endswith(".py"):
        return False
    try:
        data = untrusted.read_file(os.path.join(root, script), _LARGEST_SCRIPT, root)
    except (OSError, ValueError):
        return False
    return b"/// script" in data and _HEADER in b"\n" + data.replace(b"\r\n", b"\n")


def required_python(root: str, script: str) -> str | None:
    """The versions of Python that a script's header (PEP 723) allows, if it says so."""
    if not has_header(root, script):
        return None
    from holdfast.environments import pyproject

    return pyproject.header_python(root, script)


def active_environment(environ: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The variable, folder and interpreter of the environment that is active in this shell."""
    for name, prefix in _named_environments(environ):
        python = _python_in(prefix)
        if os.path.isabs(prefix) and os.access(python, os.X_OK):
            return name, prefix, python
    return None


def _named_environments(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name) and (name != "CONDA_PREFIX" or environ.get("CONDA_DEFAULT_ENV") not in _BASE):
            yield name, environ[name]


def _by_option(chooser: _Chooser, wanted: Wanted) -> Choice:
    if wanted.env == ACTIVE:
        if wanted.python:
            raise UsageError("use either --env active or --python, not both")
        return chooser.active("--env active")
    if wanted.env != PROJECT:
        if wanted.python:
            return chooser.path(wanted.python, wanted.folder, "--python", f"--python {wanted.python}")
        return chooser.target("--env none", as_it_is=True)
    if wanted.python:
        chooser.use_python(wanted.python, wanted.folder, f"--python {wanted.python}")
    choice = chooser.project("--env project")
    if choice is None:
        hint = "holdfast env add PACKAGE writes a requirements.txt"
        raise ConfigError("no environment is declared here", where=chooser.root, hint=hint)
    return choice


def _by_default(chooser: _Chooser) -> Choice:
    compute = chooser.compute
    if not chooser.is_here:
        declared = chooser.project("the default on this target")
        return declared or chooser.target(_with_unread(chooser.root, "nothing is declared here"))
    active = None if compute.python_location else active_environment(chooser.environ)
    if active is not None:
        return chooser.active("")
    named = [] if compute.python_location else [*_named_environments(chooser.environ)]
    # The shell's prompt shows an environment that was moved or removed all the same.
    gone = "".join(f"; {name} has no Python: {prefix!r}" for name, prefix in named)
    declared = chooser.project(f"no environment is active{gone}")
    return declared or chooser.target(_with_unread(chooser.root, f"no environment is active or declared{gone}"))


def _with_unread(root: str, why: str) -> str:
    """A file of another tool may declare packages; only its tool reads it."""
    unread = next((name for name in _UNREAD if os.path.isfile(os.path.join(root, name))), "")
    return f"{why}; {unread} is not read" if unread else why


class _Chooser:
    """The possible choices for one script on one target."""

    def __init__(
        self, root: str, compute: ComputeTarget, config: RunConfig | None, script: str, environ: Mapping[str, str]
    ) -> None:
        self.root = root
        self.compute = compute
        self.environ = environ
        self.is_here = not compute.kind.is_remote and not compute.kind.in_container
        self._config = config
        self._script = script

    def project(self, why: str) -> Choice | None:
        """The declared environment; None where nothing is declared."""
        if is_bare(self.root) and not self._may_be_declared():
            return None
        from holdfast.environments import sources

        declared = sources.find(self.root, self._config, self._script)
        if declared is None:
            return None
        compute = self.compute._replace(user_managed_environment=False)
        return Choice("project", compute, None, f"the packages of {declared.file}", why)

    def active(self, said_by: str) -> Choice:
        if not self.is_here:
            what = f"{said_by}: the active environment is on this machine, not on {self.compute.name}"
            raise UsageError(what, hint="--env project, --env none, or --python PATH with a path on the target")
        environment = active_environment(self.environ)
        if environment is None:
            raise UsageError(f"{said_by}: no environment is active in this shell", hint="activate it, or --python PATH")
        name, prefix, python = environment
        return self._as_it_is("active", python, prefix, f"active in this shell, {name}")

    def path(self, path: str, folder: str, why: str, said_by: str) -> Choice:
        python = self._interpreter(path, folder, said_by)
        return self._as_it_is("path", python, python, why)

    def use_python(self, path: str, folder: str, said_by: str) -> None:
        """Build the declared environment for this interpreter."""
        self.compute = self.compute._replace(python_location=self._interpreter(path, folder, said_by))

    def target(self, why: str, *, as_it_is: bool = False) -> Choice:
        """The target's own Python; it is asked for its version first where the script's header requires one."""
        is_free = as_it_is or required_python(self.root, self._script) is None
        compute = self.compute._replace(user_managed_environment=is_free)
        return Choice("target", compute, None, self._own_python(), why)

    def _may_be_declared(self) -> bool:
        if any(is_usable(self.root, name) for name in FILES) or has_header(self.root, self._script):
            return True
        named = self._config.conda_dependencies_file if self._config is not None else None
        if not named:
            return False
        from holdfast.environments.sources import DEFAULT

        return named != DEFAULT  # which every run configuration names, whether it is there or not

    def _as_it_is(self, origin: Origin, python: str, what: str, why: str) -> Choice:
        compute = self.compute._replace(user_managed_environment=True, python_location=python)
        return Choice(origin, compute, python, what, why)

    def _interpreter(self, path: str, folder: str, said_by: str) -> str:
        """A path of an interpreter or of an environment's folder, as the path of the interpreter on the target."""
        if not self.is_here:
            if "/" in path and not path.startswith("/"):
                raise UsageError(f"{said_by}: not an absolute path", hint="the path is one on the target")
            return self.compute._replace(environment=path).script_python or path if "/" in path else path
        full = os.path.expanduser(path)
        if os.path.dirname(full) or os.path.isdir(os.path.join(folder, full)):
            full = os.path.abspath(os.path.join(folder, full))
            full = _python_in(full) if os.path.isdir(full) else full
        else:
            full = on_path(full, self.environ) or full
        if not os.path.isfile(full) or not os.access(full, os.X_OK):
            hint = "--python takes a path, the folder of an environment, or a program on the PATH such as python3.12"
            raise UsageError(f"{said_by}: there is no interpreter {full}", hint=hint)
        return full

    def _own_python(self) -> str:
        """The interpreter that the target finds, as far as it is known here."""
        named = self.compute.python_location
        if self.is_here:
            path = on_path(named or "python", self.environ) or (None if named else on_path("python3", self.environ))
            return path or named or "python"
        where = "the image" if self.compute.kind.in_container else self.compute.name
        return f"{named or 'python'} of {where}"


def on_path(name: str, environ: Mapping[str, str]) -> str | None:
    """The program that a bare name starts."""
    if os.path.dirname(name):
        return name
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _python_in(prefix: str) -> str:
    return os.path.join(prefix, "Scripts", "python.exe") if os.name == "nt" else os.path.join(prefix, "bin", "python")
