"""The requirements of an environment in canonical form, and the key under which its lock is stored."""

from __future__ import annotations

import hashlib
import json

from holdfast.environments.secrets import scrub
from holdfast.environments.versions import allows, minor
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal

    from holdfast.amlconfig.types import Finding
    from holdfast.model import Json

# A new kernel changes nothing that packages are built for, and would cost every project a solve.
_NEVER_MATTERS = ("__linux", "__unix")
_MATTERS_TO_PIP = ("__glibc", "__osx")


class Entry(Record):
    """One requirement: ``text`` in canonical form, ``raw`` as written in the file."""

    text: str
    file: str
    line: int = 0
    column: int = 0
    raw: str = ""


class PipOptions(Record):
    """The options of a pip file. URLs are in order of priority."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    pre: bool = False
    only_binary: tuple[str, ...] = ()
    no_binary: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    require_hashes: bool = False
    torch_backend: str = ""

    def to_json(self) -> Json:
        """Only what was said."""
        given = ((name, value) for name, value in self._asdict().items() if value)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given}


class Facts(Record):
    """What a target is: conda's name for its platform, its virtual packages, its NVIDIA driver and cards."""

    platform: str = "linux-64"
    virtual: Mapping[str, str | None] = {}
    driver: str = ""
    capabilities: tuple[str, ...] = ()

    @property
    def cuda(self) -> str:
        """The newest CUDA that the driver can serve; empty without an NVIDIA GPU."""
        return self.virtual.get("__cuda") or ""


class Interpreter(Record):
    """A Python that is already there; ``identity`` changes when it is replaced by another build."""

    version: str
    identity: str


class Spec(Record):
    """An environment as declared.

    ``python`` is a constraint in pip's spelling. ``constraints`` limit versions and ask for nothing; ``option_lines``
    are where ``pip_options`` come from, ``channel_lines`` where ``channels`` do.
    ``locked`` is the text of a uv.lock or a pylock.toml.
    """

    source: str
    kind: Literal["conda", "pip"]
    python: str | None = None
    channels: tuple[str, ...] = ()
    conda: tuple[Entry, ...] = ()
    pip: tuple[Entry, ...] = ()
    constraints: tuple[Entry, ...] = ()
    pip_options: PipOptions = PipOptions()
    option_lines: tuple[Entry, ...] = ()
    channel_lines: tuple[Entry, ...] = ()
    locked: str = ""
    own_package: bool = False
    warnings: tuple[Finding, ...] = ()

    def to_json(self) -> Json:
        """For the builder: URLs with their secrets. Not to be stored."""
        uses_conda = self.kind == "conda"
        return {
            "source": self.source,
            "kind": self.kind,
            "python": self.python,
            "channels": list(self.channels) if uses_conda else [],
            "conda": _texts(self.conda) if uses_conda else [],
            "pip": _texts(self.pip),
            "constraints": _texts(self.constraints),
            "pip_options": self.pip_options.to_json(),
            "locked": self.locked,
            "own_package": self.own_package,
        }


def spec_key(spec: Spec, facts: Facts, interpreter: Interpreter | None) -> str:
    """Names what a solve depends on. A new signature or password in an address is not another environment."""
    content = spec.to_json()
    del content["source"]
    # Lock files are long, and the tools that write them leave secrets out.
    content["locked"] = hashlib.sha256(spec.locked.encode()).hexdigest()
    asks_python = spec.kind == "pip" and interpreter is not None
    matters = {
        name: version
        for name, version in facts.virtual.items()
        if (name not in _NEVER_MATTERS if spec.kind == "conda" else name in _MATTERS_TO_PIP)
    }
    basis = {
        "v": 1,
        "spec": content,
        "platform": facts.platform,
        "virtual": matters,
        "python": interpreter._asdict() if asks_python and interpreter else None,
    }
    canonical = json.dumps(scrubbed(basis), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def settled(spec: Spec, interpreter: Interpreter | None) -> Spec:
    """``spec`` as it is built with this interpreter: conda is needed if only it can provide the required Python."""
    if spec.kind == "pip" and spec.conda and (interpreter is None or not allows(spec.python, interpreter.version)):
        return spec._replace(kind="conda")
    return spec


def python_of(spec: Spec, interpreter: Interpreter | None) -> tuple[int, int] | None:
    """Major and minor version of the Python that will be there, where that is certain before a solve."""
    return minor(spec.python if spec.kind == "conda" or interpreter is None else f"=={interpreter.version}")


def python_findings(spec: Spec, interpreter: Interpreter) -> list[Finding]:
    """An error where pip would have to do with an interpreter that the project rules out."""
    if spec.kind != "pip" or allows(spec.python, interpreter.version):
        return []
    from holdfast.amlconfig.types import Finding

    required = f"{spec.source} requires Python {spec.python}"
    message = f"{required}; the interpreter of this target is Python {interpreter.version}"
    hint = "name another one with --python PATH, or as pythonLocation in the .compute file"
    return [Finding("error", spec.source, 0, 0, message, hint)]


def scrubbed(value: object) -> object:
    """Plain data with every text in it scrubbed."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {key: scrubbed(item) for key, item in value.items()}
    return value


def _texts(entries: Iterable[Entry]) -> list[str]:
    """Each once and in order; two signatures for one file are one requirement."""
    by_bare = {scrub(entry.text): entry.text for entry in entries}
    return [by_bare[bare] for bare in sorted(by_bare)]
