"""pip's items wherever they stand: requirements, options, addresses and paths, each one checked as data.

Nothing that a file says may make a tool run something: transports that start programs are refused, options are those
we know, and paths stay inside the project.
"""

from __future__ import annotations

import os
import re

from holdfast.amlconfig.types import Finding
from holdfast.environments import files
from holdfast.environments.requirement import NotARequirementError, Requirement, normal, parse, refuse_variables
from holdfast.environments.secrets import scrub
from holdfast.environments.spec import Entry, PipOptions
from holdfast.environments.wheels import parse_wheel
from holdfast.errors import ConfigError
from holdfast.runner import untrusted
from holdfast.withdrawn import CHANNELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

# Part of Python itself, and seen as packages in real files.
_STANDARD_NAMES = """
io os sys re json pickle math time datetime random csv glob shutil collections itertools functools logging
subprocess threading urllib string copy operator warnings zipfile tempfile sqlite3 ast traceback
"""
STANDARD = frozenset(_STANDARD_NAMES.split())
_ADDRESS = re.compile(r"(https?|file)://[^\s\"'`<>|;]+")
_GIT = re.compile(
    r"git\+(?:(?:https?|ssh)://(?!-)(?:[^\s/@]*@)?(?!-)[^\s/@#-]|file:///)"
    r"[^\s@#]*(?:@(?!-)[^\s@#]+)?(?:#[\w=&.\[\],/-]+)?"
)
_OPTION_BEGINS = re.compile(r"(?<!\s)\s+(?=--?[a-zA-Z])")
_STATES_HASH = re.compile(r"\s--hash[= ]")
_MOST_REQUIREMENTS = 10_000
_ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2")
_SHORT = {"-i": "--index-url", "-f": "--find-links", "-r": "--requirement", "-c": "--constraint", "-e": "--editable"}
_ADDRESS_OPTIONS = {"--index-url": "index_url", "--extra-index-url": "extra_index_urls"}
_NAME_OPTIONS = {"--only-binary": "only_binary", "--no-binary": "no_binary", "--trusted-host": "trusted_hosts"}
_FLAGS = {"--no-index": "no_index", "--pre": "pre", "--require-hashes": "require_hashes"}
# What pip knows and we cannot do: a line that is passed over would make another environment than its author meant.
_INSTEAD = {
    "--prefer-binary": "write --only-binary :all:, or pin a version that has a wheel",
    "--use-feature": "delete this line: it configures pip itself",
}


class PipItems:
    """Collects what the items of one environment say. ``folder`` is where the paths of an item begin."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.entries: list[Entry] = []
        self.constraints: list[Entry] = []
        self.option_lines: list[Entry] = []
        self.findings: list[Finding] = []
        self._count = 0  # of items, valid or not
        self.own_package = False
        self.own_extras: set[str] = set()
        self.included: set[tuple[str, bool]] = set()
        self._options: dict[str, str | bool | tuple[str, ...]] = {}

    @property
    def options(self) -> PipOptions:
        return PipOptions(**self._options)  # type: ignore[arg-type]

    def take(self, at: Entry, folder: str = "", *, constrains: bool = False) -> None:
        """Read ``at.raw``."""
        self._count += 1
        if self._count > _MOST_REQUIREMENTS:
            what = f"more than {_MOST_REQUIREMENTS} requirements"
            raise ConfigError(what, where=f"{at.file}:{at.line}", hint="remove those that the project does not use")
        text = at.raw.strip()
        if text.startswith("-"):
            for part in _OPTION_BEGINS.split(text):
                self._option(at._replace(raw=part), folder)
            return
        try:
            requirement = self._requirement(at, text, folder)
        except NotARequirementError as error:
            self.error(at, f"{shown(text)} is not a requirement: {error}", "write name==1.2, or a URL of a wheel")
            return
        if requirement is None:
            return
        if requirement.name in STANDARD and not requirement.url:
            self.warn(at, f"{requirement.name} is part of Python, not a package", "delete this line")
            return
        if _STATES_HASH.search(text):
            self._options["require_hashes"] = True  # as pip has it: where one has a hash, all need one
        (self.constraints if constrains else self.entries).append(at._replace(text=requirement.text))

    def add_index(self, address: str, *, is_default: bool) -> None:
        if is_default:
            self._options["index_url"] = address
        else:
            self._append("extra_index_urls", address)

    def warn(self, at: Entry, message: str, hint: str = "") -> None:
        self._find("warning", at, message, hint)

    def error(self, at: Entry, message: str, hint: str = "") -> None:
        self._find("error", at, message, hint)

    def _find(self, severity: Literal["error", "warning"], at: Entry, message: str, hint: str) -> None:
        self.findings.append(Finding(severity, at.file, at.line, at.column, message, hint))

    def _option(self, at: Entry, folder: str) -> None:
        name, value = _split_option(at.raw)
        gone = _gone(value) if name in (*_ADDRESS_OPTIONS, "--find-links") else ""
        if gone:
            self.warn(at, f"{gone}; this index is left out", "delete this line")
            return
        self.option_lines.append(at._replace(text=f"{name} {value}".strip()))
        if "${" in value:
            message = f"{name} {shown(value)}: environment variables are not expanded in it"
            self.error(at, message, "write the value itself")
        elif name in _ADDRESS_OPTIONS:
            if self._is_address(at, name, value):
                self.add_index(value, is_default=name == "--index-url")
        elif name == "--find-links":
            self._find_links(at, value, folder)
        elif name in _NAME_OPTIONS:
            for word in filter(None, re.split(r"[,\s]+", value)):
                self._append(_NAME_OPTIONS[name], word)
        elif name in _FLAGS and not value:
            self._options[_FLAGS[name]] = True
        elif name in ("--requirement", "--constraint"):
            self._include(at, value, folder, constrains=name == "--constraint")
        elif name == "--editable":
            self._editable(at, value, folder)
        else:
            known = ", ".join((*_ADDRESS_OPTIONS, "--find-links", *_NAME_OPTIONS, *_FLAGS))
            hint = _INSTEAD.get(name, f"one of: {known}")
            self.error(at, f"the option {shown(name)} is not supported in an environment", hint)

    def _include(self, at: Entry, value: str, folder: str, *, constrains: bool) -> None:
        from holdfast.environments.requirements import take_file

        path = files.inside(self.root, folder, value)
        if path is None or "://" in value:
            self.error(at, f"{shown(value)} is not a file of this project", "copy it into the project")
        elif not files.exists(self.root, path):
            self.error(at, f"{path} does not exist", "correct the path or delete this line")
        elif (path, constrains) not in self.included:
            take_file(self, path, constrains=constrains)

    def _append(self, option: str, value: str) -> None:
        before = self._options.get(option, ())
        if isinstance(before, tuple) and value not in before:
            self._options[option] = (*before, value)

    def _is_address(self, at: Entry, name: str, value: str) -> bool:
        if _ADDRESS.fullmatch(value):
            return True
        self.error(at, f"{name} takes an http, https or file address, not {shown(value)}", f"write {name} https://...")
        return False

    def _find_links(self, at: Entry, value: str, folder: str) -> None:
        if _ADDRESS.fullmatch(value):
            self._append("find_links", value)
            return
        path = files.inside(self.root, folder, value)
        if path is None:
            hint = "copy the wheels into the project, or write file:///... if every target has that folder"
            self.error(at, f"{shown(value)} is outside the project", hint)
        else:
            self._refuse_irregular(at, path)
            self._append("find_links", f"./{path}")

    def _refuse_irregular(self, at: Entry, path: str) -> None:
        """The tools that read this folder would wait for a FIFO for ever."""
        for folder, _, names in os.walk(os.path.join(self.root, path)):
            for name in filter(lambda name: name.endswith(_ARCHIVES), names):
                try:
                    os.close(untrusted.open_file(os.path.join(folder, name), within=self.root))
                except (OSError, untrusted.Untrusted) as error:
                    what = f"--find-links {shown(path)} holds a file that cannot be used"
                    raise ConfigError(what, where=f"{at.file}:{at.line}", answer=str(error), hint="remove it") from None

    def _editable(self, at: Entry, value: str, folder: str) -> None:
        path, _, extras = value.partition("[")
        if path and files.inside(self.root, folder, path) == ".":
            self.own_package = True
            self.own_extras |= {normal(extra) for extra in extras.rstrip("] ").split(",") if extra.strip()}
            return
        if "://" in value or "::" in value:
            self.take(at._replace(raw=value), folder)
            return
        hint = "build a wheel of it into the project and name that: pip wheel -w wheels FOLDER"
        what = shown(value) or "an empty path"
        self.error(at, f"only this project itself can be installed by -e, not {what}", hint)

    def _requirement(self, at: Entry, text: str, folder: str) -> Requirement | None:
        refuse_variables(text)
        if _looks_like_path(text):
            path, _, rest = text.partition(" --")
            return self._local_file(at, path, folder, parse(f"stated --{rest}") if rest else Requirement(""))
        requirement = parse(text)
        if requirement.url.startswith("file:"):
            return self._local_file(at, requirement.url[5:], folder, requirement)
        if requirement.url.startswith("git+"):
            return self._repository(at, requirement)
        if requirement.url and not is_fetchable(requirement.url):
            self.error(at, f"{shown(requirement.url)} cannot be fetched", "write an https address")
            return None
        wheel = parse_wheel(requirement.url)
        return requirement._replace(name=wheel.name) if wheel and not requirement.name else requirement

    def _repository(self, at: Entry, requirement: Requirement) -> Requirement | None:
        if not is_fetchable(requirement.url):
            hint = "write name @ git+https://host/repository@commit"
            self.error(at, f"{shown(requirement.url)} cannot be fetched: only git over https, ssh or file is", hint)
            return None
        egg = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", requirement.url)
        if egg and not requirement.name:
            url = re.sub(r"([#&])egg=[^&]*&?", r"\1", requirement.url).rstrip("#&")
            return requirement._replace(name=normal(egg[1]), url=url)
        return requirement

    def _local_file(self, at: Entry, text: str, folder: str, stated: Requirement) -> Requirement | None:
        path = files.inside(self.root, folder, text.strip())
        name = text.replace("\\", "/").rpartition("/")[2]
        if path is None:
            hint = f"copy the file into the project, for example to wheels, and write ./wheels/{name}"
            self.error(at, f"{shown(text)} is outside the project and not available on other machines", hint)
            return None
        if not files.exists(self.root, path):
            is_folder = os.path.isdir(os.path.join(self.root, path))
            message = "is a folder: only wheels and source archives can be installed" if is_folder else "does not exist"
            self.error(at, f"{path} {message}", "correct the path or delete this line")
            return None
        digest = f"sha256:{files.sha256(self.root, path)}"
        if stated.hashes and digest not in stated.hashes:
            self.error(at, f"{path} does not match the given hash; it has {digest}", "check which one is correct")
        return Requirement("", (), "", f"./{path}", stated.marker, (digest,))


def is_fetchable(url: str) -> bool:
    """Whether the URL can only be fetched: some of git's transports start programs."""
    return bool(_GIT.fullmatch(url) if url.startswith("git+") else _ADDRESS.fullmatch(url))


def shown(text: str) -> str:
    """What a file says, fit to stand in a message: no secrets, no control signs, not endless."""
    text = "".join(sign if sign.isprintable() else "?" for sign in scrub(text))
    return text if len(text) <= 120 else f"{text[:119]}…"


def _gone(address: str) -> str:
    """Why nothing can be had from a host of the original; empty for every other address."""
    matches = (why for pattern, new, why in CHANNELS if not new and re.fullmatch(pattern, address, re.IGNORECASE))
    return next(matches, "")


def _split_option(text: str) -> tuple[str, str]:
    name, _, value = text.partition(" ")
    if name.startswith("--") and "=" in name:
        name, _, rest = name.partition("=")
        value = f"{rest} {value}"
    elif not name.startswith("--") and len(name) > 2:
        name, value = name[:2], f"{name[2:]} {value}"
    return _SHORT.get(name, name), value.strip().strip("'\"")


def _looks_like_path(text: str) -> bool:
    if "://" in text or " @ " in text:
        return False
    path = text.partition(" --")[0].rstrip().lower()
    return path.startswith((".", "/", "~")) or re.match(r"[a-z]:[\\/]", path) is not None or path.endswith(_ARCHIVES)
