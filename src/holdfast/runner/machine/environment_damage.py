"""Finds files of a built environment that were damaged on disk, and takes it out of use, so that it is built again.

To check every file before each run would take longer than many runs do. So it is done after a run has failed: by size,
and by content where the run failed in a way that damaged files cause.
"""

import hashlib
import json
import os
import re
import stat

from ..signals import signal
from ..store import layout
from ..store.files import fsync_path
from ..store.remove_tree import remove_tree
from . import node

NOTE = b"holdfast-environment.json"
MANIFEST = b"holdfast-manifest.json"
_BYTECODE = re.compile(
    rb"marshal data too short|bad marshal data|EOF read where object expected|bad magic number in|Non-code object in"
)
_SIGNS = re.compile(
    _BYTECODE.pattern + rb"|cannot contain null bytes|invalid ELF header|file too short|ELF load command|ELF file"
    rb"|cannot read file data|cannot execute binary file|Exec format error|invalid or corrupt"
)
_SIGNALS = (-signal.SIGBUS, -signal.SIGILL)
_TAIL = 1 << 16
_BLOCK = 1 << 18
_SHOWN = 3
# Folders of the package cache with a folder per package, whose files are hard-linked into environments.
_CACHES = (b"uv/archive-v0", b"conda")


def explain(home: "bytes", key: "str", code: "int", log: "bytes") -> "str":
    """What is wrong with the environment of a failed run, which is then discarded; an empty string if nothing is."""
    folder = layout.environment(home, key.encode("ascii"))
    end = _tail(log)
    names = damaged(folder, code in _SIGNALS or _SIGNS.search(end) is not None)
    if not names and not _BYTECODE.search(end):
        return ""
    discard(home, folder, names)
    shown = ", ".join(ascii(name)[1:-1] for name in names[:_SHOWN]) or "its compiled modules"
    more = " and %d more" % (len(names) - _SHOWN) if len(names) > _SHOWN else ""
    return "files of its environment were damaged on disk (%s%s); the next run builds it again" % (shown, more)


def damaged(folder: "bytes", by_content: "bool") -> "list[str]":
    """Files that are not as they were installed; environments of older versions have no sizes to compare."""
    try:
        with open(os.path.join(folder, MANIFEST), "rb") as source:
            manifest = json.loads(source.read().decode("ascii"))
        hashes, sizes = dict(manifest["files"]), dict(manifest.get("sizes") or {})
    except FileNotFoundError:
        return [os.fsdecode(MANIFEST)] if os.path.isdir(folder) else []
    except (OSError, ValueError, KeyError, TypeError):
        return [os.fsdecode(MANIFEST)]
    return [
        name
        for name in hashes
        if not _has_size(os.path.join(folder, os.fsencode(name)), sizes.get(name))
        or (by_content and _digest(os.path.join(folder, os.fsencode(name))) != hashes[name])
    ]


def discard(home: "bytes", folder: "bytes", names: "list[str]") -> "None":
    """Have it built again by the next run, without the same damaged files from the cache of packages."""
    cache = layout.packages(home)
    remove_tree(os.path.join(cache, b"pyc"))
    inodes = set()
    for name in names:
        try:
            status = os.lstat(os.path.join(folder, os.fsencode(name)))
        except OSError:
            continue
        if status.st_nlink > 1:
            inodes.add((status.st_dev, status.st_ino))
    for package in _packages_with(cache, inodes) if inodes else ():
        remove_tree(package)
    try:
        os.chmod(folder, stat.S_IRWXU)
        os.unlink(os.path.join(folder, NOTE))
    except OSError:
        return  # another run has done it


def replace(folder: "bytes", beside: "bytes") -> "None":
    """Publish ``beside`` as ``folder``. Runs in the old one go on: the same files have the same paths."""
    before = folder + b".replaced" + node.own_ending()
    remove_tree(before)
    try:
        os.rename(folder, before)
    except FileNotFoundError:
        pass
    os.rename(beside, folder)
    fsync_path(os.path.dirname(folder))
    remove_tree(before)


def _packages_with(cache: "bytes", inodes: "set[tuple[int, int]]") -> "list[bytes]":
    tops = [top for top in (os.path.join(cache, below) for below in _CACHES) if os.path.isdir(top)]
    packages = [os.path.join(top, name) for top in tops for name in os.listdir(top)]
    return [package for package in packages if any(_identity(path) in inodes for path in _files(package))]


def _files(folder: "bytes") -> "list[bytes]":
    return [os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names]


def _identity(path: "bytes") -> "tuple[int, int]":
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _has_size(path: "bytes", size: "object") -> "bool":
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and size in (None, status.st_size)


def _digest(path: "bytes") -> "str":
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as source:
            block = source.read(_BLOCK)
            while block:
                digest.update(block)
                block = source.read(_BLOCK)
    except OSError:
        return ""
    return digest.hexdigest()


def _tail(log: "bytes") -> "bytes":
    try:
        with open(log, "rb") as source:
            source.seek(max(0, os.fstat(source.fileno()).st_size - _TAIL))
            return source.read()
    except OSError:
        return b""
