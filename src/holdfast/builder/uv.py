"""Runs the ``uv`` program that is installed beside the builder's interpreter."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .failure import KILLED, Failed, from_output
from .interpreter import clean_environment, without_logins
from .place import Place
from .scrubbing import forget_queries

if TYPE_CHECKING:
    from .report import Report

UV = os.path.join(os.path.dirname(sys.executable), "uv")
TOOK = re.compile(r"^(Prepared|Installed) (\d+) packages? in (.+)$")
PYPI = "https://pypi.org/simple"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
REPEATED = {
    "find_links": "--find-links",
    "only_binary": "--only-binary",
    "no_binary": "--no-binary",
    "trusted_hosts": "--allow-insecure-host",
}
KNOWN = {*REPEATED, "extra_index_urls", "index_url", "no_index", "pre", "torch_backend", "require_hashes"}
# Options whose addresses may hold a password, and the variables in which uv takes them: every user of a machine can
# read command lines.
VARIABLES = {"--default-index": "UV_DEFAULT_INDEX", "--index": "UV_INDEX", "--find-links": "UV_FIND_LINKS"}
STRATEGY = ("--index-strategy", "unsafe-best-match")  # pip takes the best of all indexes, and files rely on it
DOWNLOADED = re.compile(r"^ ?(?:Downloaded|Built) (\S+)")


def builder_versions() -> str:
    """The tools whose change makes other environments."""
    return ", ".join(f"{name} {_version(name)}" for name in ("uv", "py-rattler"))


class Told(NamedTuple):
    """The stdout and stderr of uv."""

    printed: str
    lines: list[str]

    def seconds(self, word: str) -> float:
        """How long it says that it ``Prepared`` or ``Installed``."""
        for line in self.lines:
            match = TOOK.match(line)
            if match and match[1] == word:
                return sum(float(value) * UNITS[unit] for value, unit in re.findall(r"([\d.]+)(ms|s|m)", match[3]))
        return 0.0

    @property
    def installed(self) -> int:
        return next(
            (int(match[2]) for line in self.lines if (match := TOOK.match(line)) and match[1] == "Installed"), 0
        )


class Uv:
    """Runs uv with our cache and without any configuration file."""

    def __init__(self, request: dict[str, Any], report: Report) -> None:
        self._report = report
        self._environment = without_logins() if request.get("no_build") else clean_environment()
        self._place = Place(request)
        self._folder = request.get("project") or os.path.dirname(os.path.abspath(request["cache"]))
        self._cache = os.path.join(os.path.abspath(request["cache"]), "uv")
        self._configured: dict[str, Any] = request.get("pip_configuration") or {}
        self._always = ["--no-config", "--no-progress", "--color", "never", "--no-python-downloads"]
        self._always += ["--cache-dir", self._cache]
        if ssl.get_default_verify_paths().cafile:
            self._always.append("--system-certs")  # an organisation's own authorities are known to the system alone
        if request.get("offline"):
            self._always.append("--offline")

    def run(self, *arguments: str, stdin: str = "", where: str = "", total: int = 0, folder: str = "") -> Told:
        """Start it with ``stdin`` on stdin; a failure is raised as what it means."""
        given: dict[str, Any] = {"stdin": stdin, "where": where, "total": total, "folder": folder}
        try:
            return self._run(*arguments, **given)
        except Failed as failed:
            if failed.kind != "unsatisfiable" or not {"compile", STRATEGY[0]} <= {*arguments}:
                raise
            self._find_denied(arguments, given)
            raise

    def _find_denied(self, arguments: tuple[str, ...], given: dict[str, Any]) -> None:
        """Raise what is wrong with an index: only with uv's own strategy does it tell that one refused its user."""
        start = arguments.index(STRATEGY[0])
        try:
            self._run(*arguments[:start], *arguments[start + len(STRATEGY) :], **given)
        except Failed as failed:
            if failed.kind == "unreachable":
                raise

    def _run(self, *arguments: str, stdin: str, where: str, total: int, folder: str) -> Told:
        plain, secret = without_addresses(arguments)
        command = self._place.words([UV, *plain, *self._always], folder or self._folder, secret)
        self._report.line(" ".join(["$", *(f"{name}={secret[name]}" for name in secret), *command]))
        lines: list[str] = []
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as printed:
            given.write(stdin)
            given.seek(0)
            with subprocess.Popen(
                command,
                cwd=(folder or self._folder) if self._place.is_here else None,
                env={**self._environment, **secret},
                stdin=given,
                stdout=printed,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            ) as process:
                assert process.stderr
                for line in process.stderr:
                    lines.append(line.rstrip("\n"))
                    self._hear(lines, total)
            forget_queries(self._cache, "\n".join([stdin, *arguments, *secret.values()]))
            printed.seek(0)
            if process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):  # the second by an engine or a shell
                raise Failed("internal", "uv, which installs packages, was killed", where=where, hint=KILLED)
            if process.returncode:
                raise from_output(lines, where)
            return Told(printed.read(), lines)

    def index_words(self, options: dict[str, Any]) -> list[str]:
        """The options of the project and of pip's configuration."""
        return index_words(with_configuration(options, self._configured))

    def _hear(self, lines: list[str], total: int) -> None:
        self._report.line(lines[-1])
        if done := DOWNLOADED.match(lines[-1]):
            count = sum(1 for line in lines if DOWNLOADED.match(line))
            self._report.progress("download", done[1], min(count, total), total)


def with_configuration(options: dict[str, Any], configured: dict[str, Any]) -> dict[str, Any]:
    """The project's options over those of pip's configuration, as pip does it; uv's own variables come first."""
    merged = {**options}
    own_index = options.get("index_url", "")
    if own_index.rstrip("/") == PYPI and configured.get("index_url"):
        own_index = ""  # a lock of uv names it because it is the default
    uvs_index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    if not own_index and not options.get("no_index") and not uvs_index:
        merged.update((name, configured[name]) for name in ("index_url", "no_index") if configured.get(name))
        if configured.get("index_url") or _has_own_torch([*configured.get("find_links", ()), *_uvs_find_links()]):
            merged["torch_backend"] = ""  # it would add PyTorch's own index
        if not os.environ.get("UV_INDEX") and not os.environ.get("UV_EXTRA_INDEX_URL"):
            merged["extra_index_urls"] = _joined(options, configured, "extra_index_urls")
    if not os.environ.get("UV_FIND_LINKS"):
        merged["find_links"] = _joined(options, configured, "find_links")
    merged["trusted_hosts"] = _joined(options, configured, "trusted_hosts")
    return merged


def _uvs_find_links() -> list[str]:
    return re.split(r"[\s,]+", os.environ.get("UV_FIND_LINKS", ""))


def _has_own_torch(links: list[str]) -> bool:
    """Whether a folder that the user named has a wheel of torch."""
    folders = [
        Path(link.removeprefix("file://")) for link in links if link and "://" not in link.removeprefix("file://")
    ]
    return any(next(folder.glob("torch-*.whl"), None) is not None for folder in folders)


def _joined(options: dict[str, Any], configured: dict[str, Any], name: str) -> list[str]:
    return list(dict.fromkeys([*(options.get(name) or ()), *(configured.get(name) or ())]))


def without_addresses(arguments: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The words without the options in ``VARIABLES``, and the variables that stand for them."""
    plain: list[str] = []
    values: dict[str, list[str]] = {}
    rest = iter(arguments)
    for word in rest:
        if word in VARIABLES:
            values.setdefault(VARIABLES[word], []).append(next(rest))
        else:
            plain.append(word)
    # A comma separates find-links in the variable.
    links = [value.replace(",", "%2C") if "://" in value else value for value in values.get("UV_FIND_LINKS", ())]
    joined = {name: " ".join(parts) for name, parts in values.items()}
    return plain, {**joined, "UV_FIND_LINKS": ",".join(links)} if links else joined


def index_words(options: dict[str, Any]) -> list[str]:
    """The pip options of a project file as uv spells them; hashes are our own affair, all others are honoured here."""
    if unknown := set(options) - KNOWN:
        what = f"this builder does not support the option {', '.join(sorted(unknown))}"
        raise Failed("internal", what, hint="the client is a newer Holdfast: update the older of the two")
    arguments = [word for url in options.get("extra_index_urls") or () for word in ("--index", url)]
    if arguments:
        arguments += STRATEGY
    if options.get("index_url"):
        arguments += ["--default-index", options["index_url"]]
    for name, flag in REPEATED.items():
        arguments += [word for value in options.get(name) or () for word in (flag, value)]
    if options.get("no_index"):
        arguments.append("--no-index")
    if options.get("pre"):
        arguments += ["--prerelease", "allow"]
    if options.get("torch_backend"):
        arguments += ["--torch-backend", options["torch_backend"]]
    return arguments


def _version(name: str) -> str:
    """As the folder says in which pip noted it: importlib.metadata takes longer to be read than all of this program."""
    before, after = f"{name.replace('-', '_')}-", ".dist-info"
    for folder in filter(os.path.isdir, sys.path):
        for note in os.listdir(folder):
            if note.startswith(before) and note.endswith(after):
                return note[len(before) : -len(after)]
    hint = f"{sys.executable} -m pip install uv py-rattler"
    raise Failed("internal", f"{name} is not installed beside the builder", where=sys.prefix, hint=hint)
