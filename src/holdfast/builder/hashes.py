"""Checks files against the hashes that the project or the lock states."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .failure import Failed, from_output
from .requirement_lines import hashes_of, is_commit, name_of, without_hashes

if TYPE_CHECKING:
    from collections.abc import Collection

SDIST = re.compile(r"(.+)-([^-]+)\.(?:tar\.gz|zip|tar\.bz2)")
BLOCK = 1 << 20
HINT = "uv pip compile --generate-hashes writes a requirements file with all of them"


def with_stated(lines: list[str], spec: dict[str, Any], ours: Collection[str]) -> list[str]:
    """The lines of a lock, with the project's hashes in place of the index's.

    As pip has it: where one requirement has a hash, all need one, but for ``ours``, which no file asks for.
    """
    stated: dict[str, set[str]] = {}
    for line in (*spec["pip"], *(spec.get("constraints") or ())):
        if hashes := hashes_of(line):
            stated.setdefault(name_of(line), set()).update(hashes)
    required = bool((spec.get("pip_options") or {}).get("require_hashes"))
    where = spec.get("source", "")
    return [_one(line, stated.get(name_of(line)), required and name_of(line) not in ours, where) for line in lines]


def completed(lines: list[str], spec: dict[str, Any], project: str) -> list[str]:
    """The lines, with the hashes of source archives in folders of this machine, of which uv tells none."""
    archives = {}
    for folder in (spec.get("pip_options") or {}).get("find_links") or ():
        if folder.startswith(("./", "file://")):
            path = os.path.join(project, unquote(folder.removeprefix("file://")))
            for entry in os.scandir(path) if os.path.isdir(path) else ():
                if name := SDIST.fullmatch(entry.name):
                    archives[f"{name_of(name[1])}=={name[2]}"] = entry.path
    return [_completed(line, archives, spec.get("source", "")) for line in lines]


def check_local_archive(package: dict[str, Any]) -> None:
    """py-rattler checks what it downloads, but takes any file of a channel on the disk."""
    address = urlsplit(package["url"])
    if address.scheme != "file":
        return
    digest = hashlib.sha256()
    try:
        with open(unquote(address.path), "rb") as archive:
            while block := archive.read(BLOCK):
                digest.update(block)
    except OSError as error:
        hint = "is the channel's disk mounted?"
        raise Failed("unreachable", str(error.strerror), where=package["url"], hint=hint) from None
    if digest.hexdigest() != package["sha256"]:
        what = f"hash mismatch: expected sha256 {package['sha256']}, got {digest.hexdigest()}"
        raise from_output([what], package["url"])


def _completed(line: str, archives: dict[str, str], where: str) -> str:
    if hashes_of(line) or is_commit(line):
        return line
    if line not in archives:
        hint = "use an index that provides hashes, or copy the file into the project"
        raise Failed("hash", f"no hash is available for {line}, so the file cannot be verified", where=where, hint=hint)
    with open(archives[line], "rb") as file:
        return f"{line} --hash=sha256:{hashlib.sha256(file.read()).hexdigest()}"


def _one(line: str, stated: set[str] | None, required: bool, where: str) -> str:
    wanted = without_hashes(line)
    if stated is None:
        if required:
            reason = "a git repository has none" if is_commit(line) else "none is stated"
            raise Failed("hash", f"every package needs a hash here, and for {wanted} {reason}", where=where, hint=HINT)
        return line
    offered = hashes_of(line)
    if all(each.startswith("sha256:") for each in (*stated, *offered)) and not stated & offered:
        what = f"hash mismatch: no file of {wanted} matches a stated hash"
        hint = "check whether the file was changed or the line is wrong"
        raise Failed("hash", what, where=where, hint=hint)
    return " ".join([wanted, *(f"--hash={each}" for each in sorted(stated))])
