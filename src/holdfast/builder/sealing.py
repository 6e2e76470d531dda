"""Finishes a build: removes build paths and secrets, makes files read-only, writes the manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .scrubbing import scrub

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .report import Report

Json = dict[str, Any]

ABOUT = "holdfast-environment.json"
MANIFEST = "holdfast-manifest.json"
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
BLOCK = 1 << 18


def rename_in_scripts(beside: str, prefix: str) -> None:
    """Scripts that were written for the building place are for the final one."""
    before, after = os.fsencode(beside), os.fsencode(prefix)
    for entry in os.scandir(os.path.join(beside, "bin")):
        if entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                content = file.read() if file.read(2) == b"#!" else b""
            if before in content:
                _replace(entry.path, b"#!" + content.replace(before, after))


def scrub_files(beside: str) -> None:
    """Where tools note whence a package came, they note passwords and signatures too."""
    for folder, _, names in os.walk(beside):
        if folder.endswith((".dist-info", "conda-meta")):
            for name in names:
                if name.endswith(".json"):
                    _scrub_file(os.path.join(folder, name))


def hash_files(root: str, paths: Iterable[str]) -> dict[str, str]:
    """sha256 of each path under root, on all cores: hashing lets other threads run."""
    ordered, count = list(paths), os.cpu_count() or 1
    with ThreadPoolExecutor(count) as hashers:
        parts = hashers.map(lambda number: _hash_part(root, ordered[number::count]), range(count))
        return {path: digest for part in parts for path, digest in part.items()}


def size(beside: str) -> int:
    """In bytes, without the files that describe the environment itself."""
    return sum(entry.stat(follow_symlinks=False).st_size for entry in _walk(beside) if not entry.is_symlink())


def seal(beside: str, known: dict[str, str]) -> None:
    """Write the manifest, take away all rights to write, and put everything on the disk."""
    links, files = _contents(beside)
    hashes = {**known, **hash_files(beside, (path for path in files if path not in known))}
    sizes = {path: os.lstat(os.path.join(beside, path)).st_size for path in sorted(files)}
    manifest = {"v": 1, "files": {path: hashes[path] for path in sizes}, "links": dict(sorted(links.items()))}
    manifest["sizes"] = sizes
    with open(os.path.join(beside, MANIFEST), "w", encoding="ascii") as file:
        json.dump(manifest, file, separators=(",", ":"))
    for folder, _, names in os.walk(beside):
        for path in (*(os.path.join(folder, name) for name in names), folder):
            mode = os.lstat(path).st_mode
            if mode & WRITABLE and not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & ~WRITABLE)
    settle(beside)


def settle(folder: str) -> None:
    """Put everything on the disk; the caller's rename must not reach it before what it publishes."""
    if sys.platform != "linux":
        os.sync()
        return
    import ctypes

    disk = os.open(folder, os.O_RDONLY)
    failed = ctypes.CDLL(None, use_errno=True).syncfs(disk)
    os.close(disk)
    if failed:
        raise OSError(ctypes.get_errno(), "the environment could not be written to disk", folder)


def verify(request: Json, report: Report) -> Json:
    """What is not as it was when the environment was published."""
    prefix = request["prefix"]
    try:
        with open(os.path.join(prefix, MANIFEST), encoding="ascii") as file:
            manifest = json.load(file)
        expected: dict[str, str] = {**manifest["files"], **manifest["links"]}
    except FileNotFoundError:
        return {"changed": [], "missing": [MANIFEST], "extra": []}
    except (ValueError, KeyError, TypeError):
        return {"changed": [MANIFEST], "missing": [], "extra": []}
    links, files = _contents(prefix)
    report.line(f"verify {prefix}: {len(files)} files")
    actual = {**hash_files(prefix, (path for path in files if path in expected)), **links}
    return {
        "changed": sorted(path for path in expected if path in actual and actual[path] != expected[path]),
        "missing": sorted(set(expected) - set(actual)),
        "extra": sorted({*files, *links} - set(expected) - {MANIFEST}),
    }


def remove_tree(root: str) -> None:
    """Also where nothing is writable any more."""
    for folder, folders, _ in os.walk(root):
        for path in (folder, *(os.path.join(folder, name) for name in folders)):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(root, ignore_errors=True)


def _replace(path: str, content: bytes) -> None:
    """A new file: the old one may be a hard link into a cache."""
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        file.write(content)
    shutil.copymode(path, beside)
    os.replace(beside, path)


def _scrub_file(path: str) -> None:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    if scrub(text) != text:
        _replace(path, scrub(text).encode("utf-8", "surrogateescape"))


def _contents(root: str) -> tuple[dict[str, str], list[str]]:
    """Symbolic links with what they point to, and files, by their path under root."""
    links: dict[str, str] = {}
    files: list[str] = []
    for entry in _walk(root):
        path = entry.path[len(root) + 1 :]
        if entry.is_symlink():
            links[path] = os.readlink(entry.path)
        else:
            files.append(path)
    return links, files


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            yield entry


def _hash_part(root: str, paths: list[str]) -> dict[str, str]:
    block = memoryview(bytearray(BLOCK))
    hashes: dict[str, str] = {}
    for path in paths:
        digest = hashlib.sha256()
        with open(os.path.join(root, path), "rb", buffering=0) as file:
            while size := file.readinto(block):
                digest.update(block[:size])
        hashes[path] = digest.hexdigest()
    return hashes
