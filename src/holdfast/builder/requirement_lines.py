"""Requirement lines as uv writes and reads them."""

from __future__ import annotations

import re

from .failure import Failed

NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
WHEEL = re.compile(r"(?:^|/)([A-Za-z0-9._]+)-[^/]+\.whl")
HASH = re.compile(r"\s--hash[= ]\s*(sha\d+:[0-9a-f]+)")
PINNED_BY_COMMIT = re.compile(r"git\+\S+@[0-9a-f]{40}\b")


def requirement_lines(text: str) -> list[str]:
    """One line per requirement, with its hashes; no comments and no options."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = (line.strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def name_of(line: str) -> str:
    """The normalised name of what the line asks for; of a wheel's path or URL, that of the wheel."""
    first = line.split(maxsplit=1)[0]
    match = (None if " @ " in line else WHEEL.search(first)) or NAME.match(line)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""


def hashes_of(line: str) -> set[str]:
    return set(HASH.findall(line))


def without_hashes(line: str) -> str:
    return HASH.sub("", line).strip()


def is_commit(line: str) -> bool:
    """Whether the line names a state of a repository that is its own hash."""
    return PINNED_BY_COMMIT.search(line) is not None


def check_pinned(lines: list[str]) -> None:
    """Nothing is installed that could be another thing tomorrow."""
    for line in lines:
        if not hashes_of(line) and not is_commit(line):
            raise Failed("hash", "the lock has no hash for this", where=line, hint="holdfast env lock writes a new one")
