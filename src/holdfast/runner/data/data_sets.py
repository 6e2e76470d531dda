"""Data sets: folders kept by content on this machine, made once and used by all runs that name them.

A set is a tree of objects, laid out as read-only files by hard links. Its objects are kept apart from project files, so
that another version of the set is sent without what both have in common. The note of a set tells where it is and in
which state its files were when their content was verified.
"""

import errno
import fcntl
import os
import stat
import sys

from ..decoding import as_bytes, lossless
from ..machine import limits
from ..store import checkout, fork_guard, layout, object_removal, objects, stable_read
from ..store.data_state import VerifiedObjects, fingerprint
from ..store.exclusive_lock import InUse
from ..store.files import sync_file_system, temporary_beside, unlink_quietly
from ..store.remove_tree import remove_tree
from . import data_notes

assert sys.platform != "win32"  # a target is never Windows

# The time of every file of a set: a file that was written to since has another one, and is verified before it is used.
_STAMP_NS = 315532800 * 10**9
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def place(home: "bytes", shared: "str") -> "tuple[bytes, bytes]":
    """Folder of the sets and folder of their objects: in ``shared`` if this user can write there, else in the store.

    The objects there must be ours: another user could have put anything into a folder of that name.
    """
    folder = os.path.expanduser(as_bytes(shared)) if shared else b""
    if os.path.isabs(folder) and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
        root = os.path.join(folder, b"objects-%d" % os.getuid())
        try:
            os.mkdir(root, 0o700)
        except OSError:
            pass
        status = os.lstat(root) if os.path.lexists(root) else None
        if status is not None and stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
            return folder, root
    return layout.data(home), layout.data_objects(home)


def find(home: "bytes", tree: "str", shared: "str" = "") -> "bytes | None":
    """The folder of a set, in the state in which it was verified, or verified now; None where there is none.

    One that another user made is taken from ``shared`` after every byte of it was compared with the tree.
    """
    note = data_notes.read(home, tree)
    if note is None:
        return _find_shared(home, tree, shared)
    folder, is_own = data_notes.folder_of(note), note.get("ours") is True
    try:
        state = fingerprint(folder)
        if state == note.get("state"):
            return folder
        damaged = _damaged(note)
    except (OSError, objects.Damaged) as error:
        if limits.explain(error):
            raise  # nothing is known about the set
        state, damaged = "", [""]
    if not damaged:
        data_notes.change(home, tree, state=state)
        return folder
    for digest in damaged if is_own else ():
        if digest:
            unlink_quietly(objects.object_path(as_bytes(note["objects"]), digest))
    _forget(home, note)
    return None if is_own else _find_shared(home, tree, shared)


def is_whole(note: "dict[str, object]") -> "bool":
    """Whether the files of a set are still what was verified; they are read where their state has changed."""
    return fingerprint(data_notes.folder_of(note)) == note.get("state") or not _damaged(note)


def _damaged(note: "dict[str, object]") -> "list[str]":
    """As ``verify``. Versions of a set share files, so that one changes the state of another: those are not read."""
    root, tree, folder = as_bytes(note["objects"]), str(note["tree"]), data_notes.folder_of(note)
    if note.get("ours") is not True:
        return verify(root, tree, folder)
    verified = VerifiedObjects(root)
    damaged = verify(root, tree, folder, verified)
    verified.save()
    return damaged


def _find_shared(home: "bytes", tree: "str", shared: "str") -> "bytes | None":
    """The same of a set in a folder that users share."""
    if not shared:
        return None
    folder, root = os.path.join(os.path.expanduser(as_bytes(shared)), tree.encode("ascii")), place(home, shared)[1]
    try:
        is_own = os.lstat(folder).st_uid == os.getuid()
        state = fingerprint(folder)  # before the look: what changes meanwhile does not go unnoticed
        if verify(root, tree, folder):
            return None
    except (OSError, objects.Damaged) as error:
        if limits.explain(error):
            raise
        return None
    data_notes.write(home, _new_note(tree, folder, root, state, is_own))
    return folder


def make(home: "bytes", tree: "str", shared: "str") -> "bytes":
    """Lay out a set whose objects are all here. Objects that changed since they were verified are read again."""
    above, root = place(home, shared)
    if os.path.lexists(os.path.join(above, tree.encode("ascii"))):
        above = layout.data(home)  # what is in the shared folder is not this tree
    os.makedirs(above, 0o700, exist_ok=True)
    folder = os.path.join(above, tree.encode("ascii"))
    beside = temporary_beside(folder)
    verified = VerifiedObjects(root)
    copier = _Linker(root, verified)
    os.mkdir(beside, 0o755)
    try:
        checkout.fill(copier, tree, beside)
        if copier.has_copied:
            sync_file_system(above)
        try:
            os.rename(beside, folder)
        except OSError as error:  # made by another client at the same time, or left by one that was killed
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            if verify(root, tree, folder, verified):
                remove_tree(folder)
                os.rename(beside, folder)
    finally:
        made = verified.right(copier.linked)
        remove_tree(beside)
        verified.add(*made)
        verified.save()
    data_notes.write(home, _new_note(tree, folder, root, fingerprint(folder), True))
    return folder


def verify(root: "bytes", tree: "str", folder: "bytes", verified: "VerifiedObjects | None" = None) -> "list[str]":
    """Read every file and compare it with the tree; the digests of those that differ, or "" for one that is too many.

    ``folder`` may be another user's: nothing in it is followed, and only regular files are opened. Files that are as
    they were when they were ``verified`` are not read.
    """
    damaged = []  # type: list[str]
    waiting = [(tree, folder)]
    while waiting:
        digest, path = waiting.pop()
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return ["", *damaged]
        entries = objects.read_tree(root, digest)
        if sorted(os.listdir(path)) != [entry.name for entry in entries]:
            damaged.append("")
        for entry in entries:
            inner = os.path.join(path, entry.name)
            if entry.kind == "dir":
                waiting.append((entry.digest, inner))
            elif verified is not None and verified.is_right(entry.digest, _status(inner)):
                continue
            elif not is_content(inner, entry.digest, entry.size):
                damaged.append(entry.digest)
            elif verified is not None and _is_same_file(inner, objects.object_path(root, entry.digest)):
                verified.add(entry.digest)
    return damaged


def _is_same_file(path: "bytes", stored: "bytes") -> "bool":
    here, there = _status(path), _status(stored)
    return here is not None and there is not None and os.path.samestat(here, there)


def _status(path: "bytes") -> "os.stat_result | None":
    try:
        return os.lstat(path)
    except OSError:
        return None


def is_content(path: "bytes", digest: "str", size: "int | None" = None) -> "bool":
    """Whether a file has the content with this hash; it is read, unless it is not of this size."""
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        if limits.explain(error):
            raise
        return False
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or size not in (None, status.st_size):
            return False
        return bool(stable_read.hash_through(fd, status, None, len) == digest)
    except (OSError, stable_read.Unreadable, stable_read.Changed):
        return False
    finally:
        os.close(fd)


def hold(folder: "bytes", exclusive: "bool" = False) -> "int":
    """Keep a set from being removed, or with ``exclusive`` from being used, until the descriptor is closed."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX | fcntl.LOCK_NB) if exclusive else fcntl.LOCK_SH)
        if not os.path.samestat(os.fstat(fd), os.lstat(folder)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    except BlockingIOError:
        os.close(fd)
        raise InUse("in use") from None
    except OSError:
        os.close(fd)
        raise
    return fd


def is_used(note: "dict[str, object]") -> "bool":
    """Whether a process of this machine holds it."""
    try:
        os.close(hold(data_notes.folder_of(note), exclusive=True))
        return False
    except InUse:
        return True
    except OSError:
        return False


def remove(home: "bytes", note: "dict[str, object]") -> "None":
    """Take a set away, and the objects that no other set has; InUse where a run uses it."""
    give_up(home, note)
    root = as_bytes(note["objects"])
    lock_of_objects = object_removal.lock_for_removal(root) if os.path.isdir(root) else None
    if lock_of_objects is None:
        return  # objects are being received; the next clean removes these
    try:
        unneeded, needed = set(), needed_objects(home, root)  # type: set[str], set[str]
        object_removal.mark(root, str(note["tree"]), unneeded)
        for digest in unneeded - needed:
            unlink_quietly(objects.object_path(root, digest))
        VerifiedObjects(root).compact()
    except objects.Damaged:
        return  # the next clean removes what is old
    finally:
        fork_guard.close(lock_of_objects)


def give_up(home: "bytes", note: "dict[str, object]") -> "None":
    """Take away a set that is damaged, and not its objects; InUse where a run uses it."""
    if note.get("ours") is True and os.path.isdir(data_notes.folder_of(note)):
        lock = hold(data_notes.folder_of(note), exclusive=True)
        try:
            _forget(home, note)
        finally:
            os.close(lock)
    else:
        _forget(home, note)


def needed_objects(home: "bytes", root: "bytes") -> "set[str]":
    """The digests of all objects below ``root`` that belong to a set."""
    digests = set()  # type: set[str]
    for note in data_notes.notes(home):
        if as_bytes(note["objects"]) == root:
            object_removal.mark(root, str(note["tree"]), digests)
    return digests


def _forget(home: "bytes", note: "dict[str, object]") -> "None":
    folder = data_notes.folder_of(note)
    if note.get("ours") is True and os.path.isdir(folder):
        gone = temporary_beside(folder)
        os.chmod(folder, 0o700)
        os.rename(folder, gone)
        _remove_links(gone, as_bytes(note["objects"]), str(note["tree"]))
    data_notes.remove(home, str(note["tree"]))


def _remove_links(folder: "bytes", root: "bytes", tree: "str") -> "None":
    """Remove the files of a set. What other sets have of them is changed by that, and as right as before."""
    verified, digests = VerifiedObjects(root), set()  # type: VerifiedObjects, set[str]
    try:
        object_removal.mark(root, tree, digests)
    except objects.Damaged:
        pass  # what is unknown is read again
    right = verified.right(digests)
    remove_tree(folder)
    verified.add(*right)
    verified.save()


def _new_note(tree: "str", folder: "bytes", root: "bytes", state: "str", is_own: "bool") -> "dict[str, object]":
    files = size = 0
    for inner, _, names in os.walk(folder):
        files += len(names)
        size += sum(os.lstat(os.path.join(inner, name)).st_size for name in names)
    note = {"v": 1, "tree": tree, "at": lossless(folder), "objects": lossless(root), "state": state, "ours": is_own}
    return dict(note, files=files, bytes=size, pinned=False)


class _Linker(checkout.Copier):
    """Makes files by hard links to objects, read-only. Where the file system has no such links, they are copied."""

    def __init__(self, root: "bytes", verified: "VerifiedObjects") -> "None":
        super().__init__(root, frozenset())
        self.has_copied = False
        self.linked = set()  # type: set[str]
        self._verified = verified

    def fill(self, tree_digest: "str", folder: "int", prefix: "bytes", depth: "int") -> "None":
        super().fill(tree_digest, folder, prefix, depth)
        os.fchmod(folder, 0o555)

    def link(self, entry: "objects.Entry", _folder: "int", path: "bytes") -> "None":
        raise objects.Damaged(entry.digest, "data sets have no symbolic links", path)

    def file(self, entry: "objects.Entry", folder: "int", path: "bytes") -> "None":
        stored = objects.object_path(self._root, entry.digest)
        try:
            status = os.lstat(stored)
        except FileNotFoundError:
            raise objects.Damaged(entry.digest, "missing", path) from None
        is_right = self._verified.is_right(entry.digest, status)
        if status.st_size != entry.size or not (is_right or is_content(stored, entry.digest, entry.size)):
            unlink_quietly(stored)
            raise objects.Damaged(entry.digest, "its content does not match its name", path)
        os.chmod(stored, (0o555 if entry.executable else 0o444) | status.st_mode & 0o111)
        os.utime(stored, ns=(_STAMP_NS, _STAMP_NS))
        try:
            os.link(stored, entry.name, dst_dir_fd=folder)
            self._add(entry.digest)
        except OSError:  # no hard links here, or too many of this file
            self._add(entry.digest)
            self.has_copied = True
            super().file(entry, folder, path)
            os.chmod(entry.name, 0o555 if entry.executable else 0o444, dir_fd=folder)
            os.utime(entry.name, ns=(_STAMP_NS, _STAMP_NS), dir_fd=folder)
            return
        self.files += 1
        self.bytes += entry.size

    def _add(self, digest: "str") -> "None":
        """The modes and links of an object were changed here, and not its content."""
        self._verified.add(digest)
        self.linked.add(digest)
