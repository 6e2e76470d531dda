"""The lock of a spec: exact packages with hashes, as text that can be committed and compared.

A lock holds no secrets: addresses are scrubbed, and ``secrets.restored`` fills them in from the project's own file.
"""

from __future__ import annotations

import hashlib
import json
import re

from holdfast.environments import requirement
from holdfast.environments.pip import is_fetchable
from holdfast.environments.secrets import scrub
from holdfast.environments.spec import Interpreter, PipOptions, scrubbed
from holdfast.errors import ConfigError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

_MAX_SIGNS = 16 << 20
_KEY = re.compile(r"[0-9a-f]{64}")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*")
_URL = re.compile(r"(https?|file)://[^\s\"'`<>|;]+\.(conda|tar\.bz2)")
_PLATFORM = re.compile(r"(linux|osx|win)-[a-z0-9]+|noarch")


class CondaPackage(Record):
    """One archive of a channel."""

    name: str
    version: str
    build: str
    url: str
    sha256: str
    size: int


class Lock(Record):
    """``spec`` is the key of what was solved; ``pip`` are lines ``name==1.2 --hash=sha256:...``.

    ``pip_bytes`` is the size of their files as far as it is known.
    """

    spec: str
    platform: str
    python: Interpreter
    conda: tuple[CondaPackage, ...] = ()
    pip: tuple[str, ...] = ()
    pip_options: PipOptions = PipOptions()
    pip_bytes: int = 0
    own_package: bool = False
    builder: str = ""

    def to_json(self) -> Json:
        packages = sorted(
            (package._replace(url=scrub(package.url)) for package in self.conda), key=lambda package: package.name
        )
        return {
            "v": 1,
            "spec": self.spec,
            "platform": self.platform,
            "python": self.python._asdict(),
            "conda": [package._asdict() for package in packages],
            "pip": sorted(map(scrub, self.pip)),
            "pip_options": scrubbed(self.pip_options.to_json()),
            "pip_bytes": self.pip_bytes,
            "own_package": self.own_package,
            "builder": self.builder,
        }


def lock_file(config: str) -> str:
    """The path of the lock of a run configuration in its project."""
    return f"aml_config/{config}.lock"


def to_text(lock: Lock) -> str:
    return json.dumps(lock.to_json(), indent=1, ensure_ascii=True) + "\n"


def from_text(text: str, where: str) -> Lock:
    """The lock in a file; ``ConfigError`` for anything that ``to_text`` does not write."""
    if len(text) > _MAX_SIGNS:
        raise _damaged(where, "it is larger than 16 MiB")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(where, str(error)[:120]) from None
    return from_json(content, where)


def from_json(content: object, where: str) -> Lock:
    """The same for what a builder has answered."""
    try:
        table = _Table(content)
        if table.number("v") != 1:
            raise ConfigError("this lock was made by a newer Holdfast", where=where, hint="update Holdfast")
        python = _Table(table.value("python"))
        return Lock(
            spec=table.text("spec", _KEY),
            platform=table.text("platform", _PLATFORM),
            python=Interpreter(python.text("version"), python.text("identity")),
            conda=tuple(_package(item) for item in table.items("conda")),
            pip=tuple(_pip_line(item) for item in table.items("pip")),
            pip_options=_options(table.value("pip_options")),
            pip_bytes=table.number("pip_bytes") if "pip_bytes" in table.content else 0,
            own_package=table.flag("own_package"),
            builder=table.text("builder"),
        )
    except _DamageError as error:
        raise _damaged(where, str(error)) from None


def needs_project(lock: Lock) -> bool:
    """Whether it can only be installed where the project's own files are."""
    return lock.own_package or any(item.startswith("./") for item in (*lock.pip, *lock.pip_options.find_links))


def matches(lock: Lock, key: str) -> bool:
    """Whether the lock was solved for the spec with this key."""
    return lock.spec == key


def env_key(lock: Lock, prefix_parent: str) -> str:
    """Names the environment that is built from a lock below a folder; two specs with equal locks share it."""
    content = lock.to_json()
    del content["spec"], content["pip_bytes"]
    canonical = json.dumps({"lock": content, "below": prefix_parent}, sort_keys=True, separators=(",", ":"))
    # Half of the digits: the key is part of paths in first lines of scripts, which old kernels cut at 127 signs.
    return hashlib.sha256(as_bytes(canonical)).hexdigest()[:32]


class _DamageError(Exception):
    """What does not belong into a lock."""


class _Table:
    """A map of the lock, asked key by key."""

    def __init__(self, content: object) -> None:
        if not isinstance(content, dict):
            raise _DamageError("a map is missing")
        self.content = content

    def value(self, name: str) -> object:
        if name not in self.content:
            raise _DamageError(f"{name} is missing")
        value: object = self.content[name]
        return value

    def text(self, name: str, shape: re.Pattern[str] | None = None) -> str:
        value = self.value(name)
        if not isinstance(value, str) or not value.isprintable() or (shape and not shape.fullmatch(value)):
            raise _DamageError(f"{name} is invalid")
        return value

    def number(self, name: str) -> int:
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 50:
            raise _DamageError(f"{name} is not a number")
        return value

    def flag(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise _DamageError(f"{name} is neither true nor false")
        return value

    def items(self, name: str) -> list[object]:
        value = self.value(name)
        if not isinstance(value, list):
            raise _DamageError(f"{name} is not a list")
        return value


def _package(item: object) -> CondaPackage:
    table = _Table(item)
    return CondaPackage(
        name=table.text("name", _WORD),
        version=table.text("version", _WORD),
        build=table.text("build", _WORD),
        url=table.text("url", _URL),
        sha256=table.text("sha256", _KEY),
        size=table.number("size"),
    )


def _pip_line(item: object) -> str:
    if not isinstance(item, str) or not item.isprintable():
        raise _DamageError("pip contains a value that is not a string")
    if item.startswith("./"):
        try:
            untrusted.relative(item[2:].split(" --")[0].rstrip())
        except untrusted.Untrusted:
            raise _DamageError("pip contains a file outside the project") from None
        return item
    try:
        wanted = requirement.parse(item)
    except requirement.NotARequirementError as error:
        raise _DamageError(f"pip contains an invalid requirement: {error}") from None
    if wanted.url and not is_fetchable(wanted.url):
        raise _DamageError(f"pip holds {wanted.name} from an unsupported source")
    if not wanted.url and not (wanted.hashes and wanted.specifier.startswith("==")):
        raise _DamageError(f"pip holds {wanted.name} without an exact version and hash")
    return item


def _options(content: object) -> PipOptions:
    table = _Table(content)
    unknown = sorted(set(table.content) - set(PipOptions._fields))
    if unknown:
        raise _DamageError(f"pip_options holds {unknown[0][:40]!r}")
    values: dict[str, object] = {}
    for name in table.content:
        default = getattr(PipOptions, name)
        if isinstance(default, bool):
            values[name] = table.flag(name)
        elif isinstance(default, str):
            values[name] = table.text(name)
        else:
            values[name] = tuple(_text(item, name) for item in table.items(name))
    return PipOptions(**values)  # type: ignore[arg-type]


def _text(item: object, name: str) -> str:
    if not isinstance(item, str) or not item.isprintable():
        raise _DamageError(f"{name} contains a value that is not a string")
    return item


def _damaged(where: str, answer: str) -> ConfigError:
    hint = f"delete it and create it again: holdfast env lock ({where})"
    return ConfigError("this lock is damaged or was not written by Holdfast", where=where, answer=answer, hint=hint)
