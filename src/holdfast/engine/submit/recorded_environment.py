"""Declares the packages that were recorded for a run, so that the builder can build that environment again (pure).

A target or an archive wrote the record. Every field is checked whole before it is written into a file that pip or
conda reads, so that no field can add a line, an option or another source.
"""

from __future__ import annotations

import re

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json

_BUILDS = re.compile(r"\+(cpu|cu[0-9]+|rocm[0-9]+(?:\.[0-9]+)*)\Z")  # of torch, which are not on the usual index
_INDEX = "https://download.pytorch.org/whl/"
_OF_BUILDER = frozenset(("pip",))  # every environment has its own
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")  # PEP 503
_VERSION = re.compile(r"[A-Za-z0-9.+!_-]+")
_CONDA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_CONDA_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!]*")
_CONDA_BUILD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._]*")
_ADDRESS = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+=&?!,:/-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SUBDIRECTORY = re.compile(r"(?!-)(?!(?:.*/)?\.\.?(?:/|\Z))[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_CHANNEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PLATFORM = re.compile(r"noarch|(?:linux|osx|win)-[a-z0-9]+")
_MINOR = re.compile(r"([0-9]{1,2}\.[0-9]{1,3})(?:[.+a-z][A-Za-z0-9.+]*)?")
# Channels that are used without a question; any user of anaconda.org can make others.
_CHANNELS = frozenset(("conda-forge", "bioconda", "nvidia", "pytorch"))
_DEFAULTS = re.compile(r"https://repo\.anaconda\.com/pkgs/(?:main|r|free|msys2)")
ALLOW = "--allow-urls"


class Declaration(Record):
    """A file that declares an environment, and what of the recorded one it cannot declare: name and reason."""

    file: str
    text: str
    left_out: tuple[tuple[str, str], ...]


class _LeftOutError(ValueError):
    """Why a package is not declared."""


def declare(recorded: Json, *, allow_urls: bool = False) -> Declaration:
    """A requirements.txt; an environment.yml where conda installed packages.

    Without ``allow_urls`` every package comes from the index of the user, that of torch, or a well-known channel.
    """
    left_out: list[tuple[str, str]] = []
    pip = list(_pip_lines(_rows(recorded, "packages"), left_out, allow_urls))
    conda = list(_conda_pairs(_rows(recorded, "conda"), left_out, allow_urls))
    if not conda:
        text = "".join(f"{line}\n" for line in (*_indexes(pip), *pip))
        return Declaration("requirements.txt", text, tuple(left_out))
    channels = dict.fromkeys(channel for channel, _ in conda if channel)
    lines = ["channels:", *(f"  - {name}" for name in channels), "dependencies:"]
    lines += [f"  - {line}" for _, line in conda]
    lines += ["  - pip:", *(f"    - {line}" for line in (*_indexes(pip), *pip))] if pip else []
    return Declaration("environment.yml", "".join(f"{line}\n" for line in lines), tuple(left_out))


def python_minor(recorded: Json) -> str:
    """3.11, of the Python that ran the script; empty where that is not known."""
    python = recorded.get("python")
    match = _MINOR.fullmatch(str(python.get("version") or "")) if isinstance(python, dict) else None
    return match.group(1) if match else ""


def _pip_lines(rows: list[Json], left_out: list[tuple[str, str]], allow_urls: bool) -> Iterator[str]:
    for row in rows:
        name = str(row.get("name") or "")
        if name in _OF_BUILDER or row.get("installer") == "conda":
            continue
        try:
            yield _pip_line(row, name, allow_urls)
        except _LeftOutError as error:
            left_out.append((name, str(error)))


def _pip_line(row: Json, name: str, allow_urls: bool) -> str:
    version = str(row.get("version") or "")
    if not _NAME.fullmatch(name) or not _is_version(version):
        raise _LeftOutError("its name or version is not one that pip knows")
    if row.get("url"):
        address = _address(row, str(row["url"]))
        if not allow_urls:
            raise _LeftOutError(f"it was installed from {address}; {ALLOW} installs it from there")
        return f"{name} @ {address}"
    if row.get("installer") not in (None, "pip", "uv", "poetry", "pdm"):
        raise _LeftOutError("it was installed by the operating system")
    return f"{name}=={version}"


def _is_version(text: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        return bool(_VERSION.fullmatch(text) and Version(text))
    except InvalidVersion:
        return False


def _address(row: Json, url: str) -> str:
    """The address as pip takes it: https to an archive, or one commit of a git repository over https."""
    if not _ADDRESS.fullmatch(url):
        raise _LeftOutError(f"it was installed from {url}, and only plain https addresses are used")
    below = str(row.get("subdirectory") or "")
    if below and not _SUBDIRECTORY.fullmatch(below):
        raise _LeftOutError(f"its subdirectory {below} is not a relative path")
    below = f"#subdirectory={below}" if below else ""
    if not row.get("commit") and not row.get("vcs"):
        return url + below
    if row.get("vcs") not in (None, "git") or not _COMMIT.fullmatch(str(row.get("commit") or "")):
        raise _LeftOutError(f"it was installed from {url}, not from a whole git commit")
    return f"git+{url}@{row['commit']}{below}"


def _indexes(lines: list[str]) -> list[str]:
    builds = (match.group(1) for match in map(_BUILDS.search, lines) if match)
    return [f"--extra-index-url {_INDEX}{build}" for build in dict.fromkeys(builds)]


def _conda_pairs(rows: list[Json], left_out: list[tuple[str, str]], allow_urls: bool) -> Iterator[tuple[str, str]]:
    """Channel and dependency of every package that conda installed."""
    for row in rows:
        name, version, build = (str(row.get(key) or "") for key in ("name", "version", "build"))
        try:
            if not (
                _CONDA_NAME.fullmatch(name) and _CONDA_VERSION.fullmatch(version) and _CONDA_BUILD.fullmatch(build)
            ):
                raise _LeftOutError("its name, version or build is not one that conda knows")
            yield _channel(str(row.get("channel") or ""), allow_urls), f"{name}={version}={build}"
        except _LeftOutError as error:
            left_out.append((name, str(error)))


def _channel(url: str, allow_urls: bool) -> str:
    """conda-forge, from the address of its folder for one platform."""
    parts = url.rstrip("/").split("/")
    if len(parts) > 1 and _PLATFORM.fullmatch(parts[-1]):
        parts.pop()
    is_named = parts[:-1] in ([], ["https:", "", "conda.anaconda.org"])
    channel = parts[-1] if is_named else "/".join(parts)
    if not url or channel in _CHANNELS or _DEFAULTS.fullmatch(channel):
        return channel
    if not (_CHANNEL_NAME if is_named else _ADDRESS).fullmatch(channel):
        raise _LeftOutError(f"its channel {url} is neither a name nor a plain https address")
    if not allow_urls:
        raise _LeftOutError(f"its channel is {channel}; {ALLOW} installs it from there")
    return channel


def _rows(recorded: Json, name: str) -> list[Json]:
    rows = recorded.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
