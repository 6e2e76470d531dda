"""Runs the ``uv`` program that is installed beside the builder's interpreter."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from .failure import Failed, from_output
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
            found = TOOK.match(line)
            if found and found[1] == word:
                return sum(float(value) * UNITS[unit] for value, unit in re.findall(r"([\d.]+)(ms|s|m)", found[3]))
        return 0.0

    @property
    def installed(self) -> int:
        return next(
            (int(found[2]) for line in self.lines if (found := TOOK.match(line)) and found[1] == "Installed"), 0
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

    def run(self, *words: str, said: str = "", where: str = "", total: int = 0, folder: str = "") -> Told:
        """Start it with ``said`` on stdin; a failure is raised as what it means."""
        plain, secret = without_addresses(words)
        command = self._place.words([UV, *plain, *self._always], folder or self._folder, secret)
        self._report.line(" ".join(["$", *(f"{name}={secret[name]}" for name in secret), *command]))
        told: list[str] = []
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as printed:
            given.write(said)
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
                    told.append(line.rstrip("\n"))
                    self._hear(told, total)
            forget_queries(self._cache, "\n".join([said, *words, *secret.values()]))
            printed.seek(0)
            if process.returncode:
                raise from_output(told, where)
            return Told(printed.read(), told)

    def index_words(self, options: dict[str, Any]) -> list[str]:
        """The options of the project and of pip's configuration."""
        return index_words(with_configuration(options, self._configured))

    def _hear(self, told: list[str], total: int) -> None:
        self._report.line(told[-1])
        if done := DOWNLOADED.match(told[-1]):
            count = sum(1 for line in told if DOWNLOADED.match(line))
            self._report.progress("download", done[1], min(count, total), total)


def with_configuration(options: dict[str, Any], configured: dict[str, Any]) -> dict[str, Any]:
    """The project's options over those of pip's configuration, as pip does it; uv's own variables come first."""
    found = {**options}
    own_index = options.get("index_url", "")
    if own_index.rstrip("/") == PYPI and configured.get("index_url"):
        own_index = ""  # a lock of uv names it because it is the default
    uvs_index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    if not own_index and not options.get("no_index") and not uvs_index:
        found.update((name, configured[name]) for name in ("index_url", "no_index") if configured.get(name))
        if configured.get("index_url"):
            found["torch_backend"] = ""  # it would add PyTorch's own index
        if not os.environ.get("UV_INDEX") and not os.environ.get("UV_EXTRA_INDEX_URL"):
            found["extra_index_urls"] = _joined(options, configured, "extra_index_urls")
    if not os.environ.get("UV_FIND_LINKS"):
        found["find_links"] = _joined(options, configured, "find_links")
    found["trusted_hosts"] = _joined(options, configured, "trusted_hosts")
    return found


def _joined(options: dict[str, Any], configured: dict[str, Any], name: str) -> list[str]:
    return list(dict.fromkeys([*(options.get(name) or ()), *(configured.get(name) or ())]))


def without_addresses(words: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The words without the options in ``VARIABLES``, and the variables that stand for them."""
    plain: list[str] = []
    values: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        if word in VARIABLES:
            values.setdefault(VARIABLES[word], []).append(next(rest))
        else:
            plain.append(word)
    # A comma separates find-links in the variable.
    links = [value.replace(",", "%2C") if "://" in value else value for value in values.get("UV_FIND_LINKS", ())]
    joined = {name: " ".join(found) for name, found in values.items()}
    return plain, {**joined, "UV_FIND_LINKS": ",".join(links)} if links else joined


def index_words(options: dict[str, Any]) -> list[str]:
    """The pip options of a project file as uv spells them; hashes are our own affair, all others are honoured here."""
    if unknown := set(options) - KNOWN:
        what = f"this builder does not support the option {', '.join(sorted(unknown))}"
        raise Failed("internal", what, hint="the client is a newer Holdfast: update the older of the two")
    words = [word for url in options.get("extra_index_urls") or () for word in ("--index", url)]
    if words:
        words += ["--index-strategy", "unsafe-best-match"]  # pip takes the best of all indexes, and files rely on it
    if options.get("index_url"):
        words += ["--default-index", options["index_url"]]
    for name, flag in REPEATED.items():
        words += [word for value in options.get(name) or () for word in (flag, value)]
    if options.get("no_index"):
        words.append("--no-index")
    if options.get("pre"):
        words += ["--prerelease", "allow"]
    if options.get("torch_backend"):
        words += ["--torch-backend", options["torch_backend"]]
    return words


def _version(name: str) -> str:
    """As the folder says in which pip noted it: importlib.metadata takes longer to be read than all of this program."""
    before, after = f"{name.replace('-', '_')}-", ".dist-info"
    for place in filter(os.path.isdir, sys.path):
        for note in os.listdir(place):
            if note.startswith(before) and note.endswith(after):
                return note[len(before) : -len(after)]
    hint = f"{sys.executable} -m pip install uv py-rattler"
    raise Failed("internal", f"{name} is not installed beside the builder", where=sys.prefix, hint=hint)
