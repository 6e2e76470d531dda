"""Content-addressed objects: files, and one tree per directory, each named by the SHA-256 of its plain content.

``root`` is the ``objects`` folder of a store. An object appears under its final name complete and durable or not
at all: it is written under ``root/tmp``, synced, renamed, and its directory synced.
"""

import hashlib
import os
import stat
import sys

from .. import json_text, untrusted
from ..decoding import as_bytes, escaped, lossless
from . import fork_guard, layout
from .files import fsync_path, make_private, sync_file_system, unlink_quietly, write_all
from .stable_read import CHUNK, Unreadable, check_unchanged, hash_through, read_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    OnBytes = Optional[Callable[[int], None]]

TREE_VERSION = 1
MAX_DEPTH = 200  # far beyond real projects, and below the interpreter's recursion limit

TMP = b"tmp"
LOCK = b"lock"
_FOLDERS = 256
# Measured on ext4 and tmpfs: to list a folder costs as much as to ask for 2 objects, and 1 more for every 7 it holds.
_LIST_FROM = 4
_LIST_UP_TO = 4
# Measured on ext4: one fsync costs 0.25 ms, loading ctypes for syncfs 2 ms.
_FSYNC_EACH_UP_TO = 8


class Entry:  # noqa: PLW1641 - nothing keeps one in a set
    """One name in a tree; ``kind`` is "file", "dir" or "link". A link has a target, the others have a digest."""

    __slots__ = ("digest", "executable", "kind", "name", "size", "target")

    def __init__(
        self, name: "bytes", kind: "str", executable: "bool", size: "int", digest: "str", target: "bytes"
    ) -> "None":
        self.name = name
        self.kind = kind
        self.executable = executable
        self.size = size
        self.digest = digest
        self.target = target

    def __eq__(self, other: "object") -> "bool":
        return isinstance(other, Entry) and all(getattr(self, each) == getattr(other, each) for each in self.__slots__)


class Damaged(Exception):
    """An object is missing, or its bytes do not match its name."""

    def __init__(self, digest: "str", why: "str", path: "bytes" = b"") -> "None":
        super().__init__(digest, why, path)
        self.digest = digest
        self.why = why
        self.path = path

    def __str__(self) -> "str":
        name = escaped(self.path) or "object"
        return "{} ({}): {}".format(name, self.digest, self.why)


def object_path(root: "bytes", digest: "str") -> "bytes":
    untrusted.hexadecimal(digest, 64)
    return b"%s/%s/%s" % (root, digest[:2].encode(), digest[2:].encode())


def has(root: "bytes", digest: "str") -> "bool":
    return os.path.exists(object_path(root, digest))


def read(root: "bytes", digest: "str") -> "bytes":
    """The verified content of an object."""
    try:
        with open(object_path(root, digest), "rb") as stream:
            data = stream.read()
    except FileNotFoundError:
        raise Damaged(digest, "missing") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise Damaged(digest, "its content does not match its name")
    return data


def discard(root: "bytes", digest: "str") -> "None":
    """Move a damaged object to ``damaged``, so that a good copy can be stored."""
    make_private(layout.damaged(root))
    try:
        os.replace(object_path(root, digest), os.path.join(layout.damaged(root), digest.encode()))
    except FileNotFoundError:
        pass


def encode_tree(entries: "list[Entry]") -> "bytes":
    """The canonical form of one directory: the same entries give the same bytes on every machine."""
    rows = []
    for entry in sorted(entries, key=lambda each: each.name):
        row = {"name": lossless(entry.name), "type": entry.kind}  # type: dict[str, object]
        if entry.kind == "link":
            row["target"] = lossless(entry.target)
        else:
            row["digest"] = entry.digest
        if entry.kind == "file":
            row["executable"] = entry.executable
            row["size"] = entry.size
        rows.append(row)
    document = {"entries": rows, "v": TREE_VERSION}
    return json_text.dumps(document, sort_keys=True).encode("ascii")


def decode_tree(data: "bytes") -> "list[Entry]":
    """The entries of a tree object; ValueError where it is not one, or holds a name that could lead elsewhere."""
    try:
        document = json_text.loads(data.decode("ascii"))
        if document["v"] != TREE_VERSION:
            raise ValueError("tree version {!r} is not supported".format(document["v"]))
        entries = [_decode_entry(row) for row in document["entries"]]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("not a tree object: {!r}".format(error)) from None
    names = [entry.name for entry in entries]
    if names != sorted(set(names)):
        raise ValueError("the names of a tree are repeated or out of order")
    return entries


def read_tree(root: "bytes", digest: "str", path: "bytes" = b"") -> "list[Entry]":
    """The entries of a stored tree. ``path`` is its path in the project, for the error message."""
    try:
        return decode_tree(read(root, digest))
    except Damaged as error:
        raise Damaged(digest, error.why, path or b".") from None
    except ValueError as error:
        raise Damaged(digest, str(error), path or b".") from None


def missing(root: "bytes", tree_digest: "str") -> "list[str]":
    """The digests of absent objects below a tree, each once. What is below an absent tree is unknown."""
    absent = []
    files = []  # type: list[str]
    seen = {tree_digest}
    waiting = [tree_digest]
    while waiting:
        digest = waiting.pop()
        if not has(root, digest):
            absent.append(digest)
            continue
        for entry in read_tree(root, digest):
            if entry.kind != "link" and entry.digest not in seen:
                seen.add(entry.digest)
                (waiting if entry.kind == "dir" else files).append(entry.digest)
    return absent + lacking(root, files)


def lacking(root: "bytes", digests: "list[str]") -> "list[str]":
    """Those of the digests that have no object, in the same order."""
    share = len(digests) // _FOLDERS
    # Hashes are spread evenly: one folder tells how full all of them are.
    if share < _LIST_FROM or len(_names(root, digests[0][:2])) > _LIST_UP_TO * share:
        return [digest for digest in digests if not has(root, digest)]
    names = {}  # type: dict[str, set[bytes]]
    absent = []
    for digest in digests:
        folder = digest[:2]
        if folder not in names:
            names[folder] = _names(root, folder)
        if digest[2:].encode() not in names[folder]:
            absent.append(digest)
    return absent


class HashOnly:
    """Names content as a Batch does, and keeps none of it."""

    def __init__(self) -> "None":
        self.new_objects = 0
        self.syncs = 0

    def add_bytes(self, data: "bytes") -> "str":
        self.new_objects += 1
        return hashlib.sha256(data).hexdigest()

    def add_file(self, source: "int | bytes", on_bytes: "OnBytes" = None) -> "tuple[str, os.stat_result]":
        """Digest and state of a regular file (open descriptor or path), read once; Changed if it did not hold still.

        ``on_bytes(n)`` is called after each piece read.
        """
        if not isinstance(source, int):
            descriptor = os.open(source, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                return self.add_file(descriptor, on_bytes)
            finally:
                os.close(descriptor)
        before = os.fstat(source)
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable("not a regular file")
        if before.st_size <= CHUNK:
            data = read_source(source, before.st_size + 1)
            check_unchanged(source, before, len(data))
            if on_bytes is not None:
                on_bytes(len(data))
            return self.add_bytes(data), before
        return self._add_large(source, before, on_bytes), before

    def holds(self, digest: "str", size: "int") -> "bool":  # noqa: ARG002
        """Whether this content need not be added again."""
        return True

    def commit(self) -> "None":
        """Nothing to keep."""

    def _add_large(self, source: "int", before: "os.stat_result", on_bytes: "OnBytes") -> "str":
        self.new_objects += 1
        return hash_through(source, before, on_bytes, len)


class Batch(HashOnly):
    """Objects that become visible together at ``commit``; leaving its ``with`` block drops what was not committed."""

    def __init__(self, root: "bytes") -> "None":
        super().__init__()
        self.new_bytes = 0
        self._root = root
        self._staged = {}  # type: dict[str, bytes]
        self._is_folder = {}  # type: dict[str, bool]
        self._prefix = b"%d-%s" % (os.getpid(), os.urandom(6).hex().encode())
        make_private(os.path.join(root, TMP))
        self._lock = lock_batches(root, exclusive=False)

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *failure: "object") -> "None":
        for temporary in self._staged.values():
            unlink_quietly(temporary)
        self._staged.clear()
        if self._lock is not None:
            fork_guard.close(self._lock)
            self._lock = None

    def add_bytes(self, data: "bytes", promised: "str" = "") -> "str":
        digest = hashlib.sha256(data).hexdigest()
        if promised not in ("", digest):
            raise ValueError("it arrived damaged, with the content of {}".format(digest))
        if not self.holds(digest, len(data)):
            temporary, descriptor = self._create()
            try:
                write_all(descriptor, data)
            except BaseException:
                os.close(descriptor)
                unlink_quietly(temporary)
                raise
            os.close(descriptor)
            self._stage(digest, temporary, len(data))
        return digest

    def adopt(self, digest: "str", path: "bytes", size: "int") -> "None":
        """Take a whole file of the same file system that is known to hash to this; it is moved at ``commit``."""
        os.chmod(path, 0o400)
        self._stage(digest, path, size)

    @property
    def staged(self) -> "list[str]":
        """The digests of what ``commit`` is going to publish."""
        return list(self._staged)

    def commit(self) -> "None":
        """Make everything added so far durable and visible; what was added last appears last."""
        staged = list(self._staged.items())
        self._is_folder.clear()
        self._sync([temporary for _, temporary in staged])
        # A root tree is added last. It must not survive a power cut that one of its parts did not survive.
        for part in (staged[:-1], staged[-1:]):
            self._publish(part)

    def _add_large(self, source: "int", before: "os.stat_result", on_bytes: "OnBytes") -> "str":
        temporary, descriptor = self._create()
        try:
            digest = hash_through(source, before, on_bytes, lambda piece: write_all(descriptor, piece))
        except BaseException:
            os.close(descriptor)
            unlink_quietly(temporary)
            raise
        os.close(descriptor)
        if self.holds(digest, before.st_size):
            os.unlink(temporary)
        else:
            self._stage(digest, temporary, before.st_size)
        return digest

    def holds(self, digest: "str", size: "int") -> "bool":
        if digest in self._staged:
            return True
        folder = digest[:2]
        if folder not in self._is_folder:
            self._is_folder[folder] = os.path.isdir(b"%s/%s" % (self._root, folder.encode()))
        if not self._is_folder[folder]:
            return False  # what others put there meanwhile is the same, and is replaced by it
        try:
            # A stored object of another size is damaged: the good content is at hand and replaces it.
            return os.stat(object_path(self._root, digest)).st_size == size
        except FileNotFoundError:
            return False

    def _create(self) -> "tuple[bytes, int]":
        temporary = b"%s/%s/%s-%d" % (self._root, TMP, self._prefix, self.new_objects)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return temporary, os.open(temporary, flags, 0o400)

    def _stage(self, digest: "str", temporary: "bytes", size: "int") -> "None":
        self._staged[digest] = temporary
        self.new_objects += 1
        self.new_bytes += size

    def _publish(self, staged: "list[tuple[str, bytes]]") -> "None":
        touched = set()
        for digest, temporary in staged:
            target = object_path(self._root, digest)
            folder = os.path.dirname(target)
            try:
                os.replace(temporary, target)
            except FileNotFoundError:
                make_private(folder)
                touched.add(self._root)
                os.replace(temporary, target)
            del self._staged[digest]
            touched.add(folder)
        self._sync(sorted(touched))

    def _sync(self, paths: "list[bytes]") -> "None":
        if len(paths) > _FSYNC_EACH_UP_TO and sync_file_system(self._root):
            self.syncs += 1
            return
        for path in paths:
            fsync_path(path)
            self.syncs += 1


def _names(root: "bytes", folder: "str") -> "set[bytes]":
    try:
        return set(os.listdir(b"%s/%s" % (root, folder.encode())))
    except FileNotFoundError:
        return set()


def _decode_entry(row: "dict[str, Any]") -> "Entry":
    name = _bytes(row["name"])
    kind = row["type"]
    untrusted.component(name)
    if kind == "link":
        target = _bytes(row["target"])
        if not target or b"\0" in target:
            raise ValueError("the link {!r} has no usable target".format(name))
        return Entry(name, kind, False, 0, "", target)
    digest = untrusted.hexadecimal(row["digest"], 64)
    if kind == "dir":
        return Entry(name, kind, False, 0, digest, b"")
    size = row["size"]
    if kind != "file" or type(size) is not int or size < 0 or not isinstance(row["executable"], bool):
        raise ValueError("{!r} is not a file, directory or symbolic link".format(name))
    return Entry(name, kind, row["executable"], size, digest, b"")


def _bytes(name: "object") -> "bytes":
    if not isinstance(name, str):
        raise ValueError("a name must be text, not {!r}".format(name))
    return as_bytes(name)


def lock_batches(root: "bytes", exclusive: "bool") -> "int | None":
    """Hold the lock that keeps sweep and batches apart, until ``fork_guard.close``; None where there are no locks.

    A batch waits for a sweep, which is short (lock_wait.Held where it is stopped); a sweep does not wait for a batch
    and gets None.
    """
    if sys.platform == "win32":
        return None
    from . import lock_wait

    path = os.path.join(root, TMP, LOCK)
    descriptor = fork_guard.open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        if not exclusive:
            lock_wait.hold(descriptor, path, shared=True)
        elif not lock_wait.try_hold(descriptor):
            fork_guard.close(descriptor)
            return None
    except lock_wait.Held:
        fork_guard.close(descriptor)
        raise
    except OSError:
        fork_guard.close(descriptor)
        return None
    return descriptor
