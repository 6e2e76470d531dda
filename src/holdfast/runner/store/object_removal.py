"""Removes objects that are not needed, and keeps removal apart from uploads and starts. See ``objects``."""

import os

from . import fork_guard, objects
from .files import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def sweep(root: "bytes") -> "int":
    """Remove what killed batches left behind; nothing while any batch is at work. Returns how many files went."""
    try:
        names = [name for name in os.listdir(os.path.join(root, objects.TMP)) if name != objects.LOCK]
    except FileNotFoundError:
        return 0
    lock = lock_for_removal(root) if names else None
    if lock is None:
        return 0
    try:
        for name in names:
            os.unlink(os.path.join(root, objects.TMP, name))
    finally:
        fork_guard.close(lock)
    return len(names)


def stored(root: "bytes") -> "Iterator[tuple[bytes, str]]":
    """Path and digest of every object in the store."""
    try:
        folders = [] if os.path.islink(root) else sorted(os.listdir(root))
    except FileNotFoundError:
        folders = []
    for folder in folders:
        if len(folder) == 2 and os.path.isdir(os.path.join(root, folder)):
            for name in sorted(os.listdir(os.path.join(root, folder))):
                if len(name) == 62:
                    yield os.path.join(root, folder, name), (folder + name).decode("ascii", "replace")


def mark(root: "bytes", tree_digest: "str", digests: "set[str]") -> "None":
    """Add the digests of a tree and of everything below it; Damaged where a tree cannot be read."""
    waiting = [tree_digest] if tree_digest and tree_digest not in digests else []
    digests.update(waiting)
    while waiting:
        for entry in objects.read_tree(root, waiting.pop()):
            if entry.kind != "link" and entry.digest not in digests:
                digests.add(entry.digest)
                if entry.kind == "dir":
                    waiting.append(entry.digest)


class Kept:
    """While it is open no object is removed, so that what was found to be there stays until a run refers to it."""

    def __init__(self, root: "bytes") -> "None":
        self._root = root
        self._lock = None  # type: int | None

    def __enter__(self) -> "Kept":
        try:
            self._lock = objects.lock_batches(self._root, exclusive=False)
        except FileNotFoundError:
            pass  # a store that never got an object
        return self

    def __exit__(self, *failure: "object") -> "None":
        self.release()

    def release(self) -> "None":
        if self._lock is not None:
            fork_guard.close(self._lock)
            self._lock = None


def lock_for_removal(root: "bytes") -> "int | None":
    """The descriptor of a lock that excludes batches and ``Kept``; None where one of them is open, or locks fail."""
    make_private(os.path.join(root, objects.TMP))
    return objects.lock_batches(root, exclusive=True)
