"""The download sizes of a lock, where the lock states them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .requirement_lines import hashes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# One file in a uv.lock or a pylock.toml; the order of its fields differs.
FILE = re.compile(r'\{ (?:url|path) = "([^"]+)"((?:[^{}]|\{[^{}]*\})*)\}')
SIZE = re.compile(r"\bsize = (\d+)")
SHA256 = re.compile(r'sha256(?: = "|:)([0-9a-f]{64})')
MACHINES = {"linux-64": ("linux", "x86_64"), "linux-aarch64": ("linux", "aarch64"), "osx-arm64": ("macosx", "arm64")}


class File(NamedTuple):
    name: str
    size: int


def files_in(locked: str) -> dict[str, File]:
    """sha256 -> file, of those with a known size."""
    files = {}
    for url, fields in FILE.findall(locked):
        size, digest = SIZE.search(fields), SHA256.search(fields)
        if size and digest:
            files[digest[1]] = File(url.partition("?")[0].rpartition("/")[2], int(size[1]))
    return files


def total(lines: Iterable[str], files: dict[str, File], platform: str) -> int:
    """Of each line the largest file that could be the one for this platform."""
    return sum(max(_sizes(line, files, platform), default=0) for line in lines)


def _sizes(line: str, files: dict[str, File], platform: str) -> list[int]:
    named = [files[digest] for each in hashes_of(line) if (digest := each.partition(":")[2]) in files]
    wheels = [file for file in named if file.name.endswith(".whl")]
    return [file.size for file in wheels or named if _fits(file.name, platform)]


def _fits(name: str, platform: str) -> bool:
    if not name.endswith(".whl") or name.endswith("-any.whl") or platform not in MACHINES:
        return True
    return all(word in name.rpartition("-")[2] for word in MACHINES[platform])
