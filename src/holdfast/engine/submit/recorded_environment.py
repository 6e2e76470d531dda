"""Declares the packages that were recorded for a run, so that the builder can build that environment again (pure)."""

from __future__ import annotations

import re

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json

_BUILDS = re.compile(r"\+(cpu|cu\d+|rocm[\d.]+)$")  # of torch, which are not on the usual index
_INDEX = "https://download.pytorch.org/whl/"
_OF_BUILDER = frozenset(("pip",))  # every environment has its own
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*$")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!*-]*$")


class Declaration(Record):
    """A file that declares an environment, and what of the recorded one it cannot declare: name and reason."""

    file: str
    text: str
    left_out: tuple[tuple[str, str], ...]


def declare(recorded: Json) -> Declaration:
    """A requirements.txt; an environment.yml where conda installed packages."""
    left_out: list[tuple[str, str]] = []
    pip = list(_pip_lines(_rows(recorded, "packages"), left_out))
    conda = [row for row in _rows(recorded, "conda") if _NAME.match(str(row.get("name")))]
    if not conda:
        text = "".join(f"{line}\n" for line in (*_indexes(pip), *pip))
        return Declaration("requirements.txt", text, tuple(left_out))
    channels = dict.fromkeys(filter(None, (_channel(str(row.get("channel") or "")) for row in conda)))
    lines = ["channels:", *(f"  - {name}" for name in channels), "dependencies:"]
    lines += [f"  - {row['name']}={row['version']}={row['build']}" for row in conda]
    lines += ["  - pip:", *(f"    - {line}" for line in (*_indexes(pip), *pip))] if pip else []
    return Declaration("environment.yml", "".join(f"{line}\n" for line in lines), tuple(left_out))


def _pip_lines(rows: list[Json], left_out: list[tuple[str, str]]) -> Iterator[str]:
    for row in rows:
        name, version, url = (str(row.get(key) or "") for key in ("name", "version", "url"))
        if name in _OF_BUILDER or row.get("installer") == "conda":
            continue
        if not _NAME.match(name) or not _VERSION.match(version):
            left_out.append((name, "its name or version is not one that pip knows"))
        elif url.startswith("file:"):
            left_out.append((name, f"it was installed from {url}"))
        elif url:
            yield f"{name} @ {_address(row, url)}"
        elif row.get("installer") not in (None, "pip", "uv", "poetry", "pdm"):
            left_out.append((name, "it was installed by the operating system"))
        else:
            yield f"{name}=={version}"


def _address(row: Json, url: str) -> str:
    if not row.get("commit"):
        return url
    below = f"#subdirectory={row['subdirectory']}" if row.get("subdirectory") else ""
    return f"{row.get('vcs') or 'git'}+{url}@{row['commit']}{below}"


def _indexes(lines: list[str]) -> list[str]:
    builds = (match.group(1) for match in map(_BUILDS.search, lines) if match)
    return [f"--extra-index-url {_INDEX}{build}" for build in dict.fromkeys(builds)]


def _channel(url: str) -> str:
    """conda-forge, from the address of its folder for one platform."""
    parts = url.rstrip("/").split("/")
    if parts[-1] in ("noarch",) or re.match(r"(linux|osx|win)-", parts[-1]):
        parts.pop()
    return parts[-1] if "conda.anaconda.org" in parts else "/".join(parts)


def _rows(recorded: Json, name: str) -> list[Json]:
    rows = recorded.get(name)
    return rows if isinstance(rows, list) else []
