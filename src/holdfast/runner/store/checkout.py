"""Writes a stored tree as ordinary files and verifies every byte that it copies."""

import errno
import hashlib
import os
import sys

from . import objects, stable_read
from .files import write_all

_FICLONE = 0x40049409
_NO_REFLINK = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM)
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _READ | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def checkout(root: "bytes", tree_digest: "str", dest: "bytes", skip: "tuple[bytes, ...]" = ()) -> "tuple[int, int]":
    """Write the tree into the new directory ``dest``, leaving out the tree paths in ``skip``; (files, bytes).

    Where an object is missing or damaged, Damaged names the file and ``dest`` is taken away again.
    """
    os.mkdir(dest)
    copier = Copier(root, frozenset(skip))
    try:
        fill(copier, tree_digest, dest)
    except BaseException:
        import shutil

        shutil.rmtree(dest, ignore_errors=True)
        raise
    return copier.files, copier.bytes


def fill(copier: "Copier", tree_digest: "str", dest: "bytes") -> "None":
    descriptor = os.open(dest, _FOLDER)
    try:
        copier.fill(tree_digest, descriptor, b"", 0)
    finally:
        os.close(descriptor)


class Copier:
    def __init__(self, root: "bytes", skip: "frozenset[bytes]") -> "None":
        self.files = 0
        self.bytes = 0
        self._root = root
        self._skip = skip
        self._reflink = sys.platform.startswith("linux")

    def fill(self, tree_digest: "str", folder: "int", prefix: "bytes", depth: "int") -> "None":
        """Everything is made relative to the open folder and never through a link: no tree can write elsewhere."""
        if depth > objects.MAX_DEPTH:
            raise objects.Damaged(tree_digest, "folders are nested deeper than {}".format(objects.MAX_DEPTH), prefix)
        for entry in objects.read_tree(self._root, tree_digest, prefix):
            path = prefix + entry.name
            if path in self._skip:
                continue
            if entry.kind == "file":
                self.file(entry, folder, path)
            elif entry.kind == "link":
                self.link(entry, folder, path)
            else:
                os.mkdir(entry.name, dir_fd=folder)
                below = os.open(entry.name, _FOLDER, dir_fd=folder)
                try:
                    self.fill(entry.digest, below, path + b"/", depth + 1)
                finally:
                    os.close(below)

    def link(self, entry: "objects.Entry", folder: "int", _path: "bytes") -> "None":
        os.symlink(entry.target, entry.name, dir_fd=folder)

    def file(self, entry: "objects.Entry", folder: "int", path: "bytes") -> "None":
        try:
            source = os.open(objects.object_path(self._root, entry.digest), _READ)
        except FileNotFoundError:
            raise objects.Damaged(entry.digest, "missing", path) from None
        try:
            target = os.open(entry.name, _CREATE, 0o777 if entry.executable else 0o666, dir_fd=folder)
            try:
                if not (self._reflink and self._clone(entry, path, source, target)):
                    _copy_verified(entry, path, source, target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        self.files += 1
        self.bytes += entry.size

    def _clone(self, entry: "objects.Entry", path: "bytes", source: "int", target: "int") -> "bool":
        """Share the object's blocks. They are not read, so only their number is checked."""
        if not sys.platform.startswith("linux"):
            return False
        import fcntl

        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError as error:
            if error.errno not in _NO_REFLINK:
                raise
            self._reflink = False  # one file system below dest: what it refused once it refuses always
            return False
        if os.fstat(target).st_size != entry.size:
            raise objects.Damaged(entry.digest, "its size is not the stored one", path)
        return True


def _copy_verified(entry: "objects.Entry", path: "bytes", source: "int", target: "int") -> "None":
    hasher = hashlib.sha256()
    got = 0
    at_end = False
    while not at_end and got <= entry.size:
        count = min(stable_read.CHUNK, entry.size - got + 1)
        piece = os.read(source, count)
        at_end = len(piece) < count
        hasher.update(piece)
        write_all(target, piece)
        got += len(piece)
    if got != entry.size:
        raise objects.Damaged(entry.digest, "its size is not the stored one", path)
    if hasher.hexdigest() != entry.digest:
        raise objects.Damaged(entry.digest, "its content does not match its name", path)
