"""Writes into a store's own part of a shared folder: under a temporary name, then renamed; nothing is changed again.

Paths are relative to an open folder that is known to be this user's. So users who may write beside it cannot
redirect a write with a link. Client and runner share it: the folder is on this machine or on a target.
"""

import contextlib
import errno
import hashlib
import os
import stat
import sys

from .. import untrusted
from ..store import object_removal
from ..store.file_owners import user_name
from ..store.files import SYNCED, TEMPORARY, WholeFile, fsync_path, is_temporary, sync_file_system, write_all

MYPY = False
if MYPY:
    from collections.abc import Iterable, Iterator

NOTE = "holdfast-history.json"
KIND = "holdfast-history"
OBJECTS, RUNS, LABELS = "objects", "runs", "labels"
ENCODED_NOTE = b'{"v": 1, "kind": "holdfast-history"}\n'
_TEMPORARY = "tmp"
_LARGEST_NOTE = 10000
_BLOCK = 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_WRITE = 0o222
_IN_THE_WAY = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO)
FOREIGN, NOT_A_FOLDER, UNWRITABLE = "foreign", "not-a-folder", "unwritable"


class CannotWrite(Exception):
    """``code`` is FOREIGN (the part is another user's), NOT_A_FOLDER (something has its name) or UNWRITABLE."""

    def __init__(self, code: "str", where: "str", answer: "str") -> "None":
        super().__init__(code, where, answer)
        self.code, self.where, self.answer = code, where, answer


def look(path: "str", store: "str") -> "dict[str, object]":
    """What a folder is: ``state`` and, where it is not a shared folder, ``answer`` and ``owner`` that say why.

    ``state``: absent, unreadable, in-store, history, empty, other-files, unreadable-note or other-format.
    ``store`` is the path of the store of this machine, which is no place for it.
    """
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        return {"state": "absent", "path": folder}
    if _is_inside(folder, store):
        return {"state": "in-store", "path": folder}
    try:
        names = os.listdir(folder)
    except OSError as error:
        return {"state": "unreadable", "path": folder, "answer": error.strerror}
    note = os.path.join(folder, NOTE)
    if os.path.lexists(note):  # after the listing: another first push may be under way
        return dict(_look_at_note(note), path=folder, owner=owner_of(note))
    if any(map(is_part, names)):  # the user who pushed first can remove the file; parts are enough
        return {"state": "history", "path": folder}
    others = [name for name in names if not is_temporary(name)]
    if others:
        owner = owner_of(os.path.join(folder, others[0]))
        return {"state": "other-files", "path": folder, "answer": others[0], "owner": owner}
    return {"state": "empty", "path": folder}


def _look_at_note(path: "str") -> "dict[str, object]":
    try:
        note = untrusted.loads(untrusted.read_file(path, _LARGEST_NOTE, follow=False))
    except (OSError, ValueError) as error:
        return {"state": "unreadable-note", "answer": str(error)}
    if not isinstance(note, dict) or note.get("kind") != KIND or note.get("v") != 1:
        return {"state": "other-format", "answer": ascii(note)[:200]}
    return {"state": "history"}


def _is_inside(folder: "str", other: "str") -> "bool":
    try:
        return bool(untrusted.inside(folder, other))
    except untrusted.OutsideError:
        return False


def is_part(name: "str") -> "bool":
    """Whether a name is that of a store's part."""
    return is_hexadecimal(name, 32)


def is_hexadecimal(text: "str", length: "int") -> "bool":
    try:
        return bool(untrusted.hexadecimal(text, length))
    except untrusted.Untrusted:
        return False


def parts(folder: "str") -> "list[tuple[str, int]]":
    """Names and owners of the stores that pushed. What is not a plain folder with such a name is not one."""
    rows = []
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if is_part(entry.name) and entry.is_dir(follow_symlinks=False):
            owner = -1 if sys.platform == "win32" else entry.stat(follow_symlinks=False).st_uid
            rows.append((entry.name, owner))
    return rows


def names(part: "str", kind: "str") -> "list[str]":
    """The uids of ``runs``, or the hashes of ``labels``; a folder that is a link, or cannot be read, has none."""
    ending, length = (".json", 32) if kind == RUNS else (".jsonl", 64)
    folder = os.path.join(part, kind)
    try:
        entries = [] if os.path.islink(folder) else sorted(os.listdir(folder))
    except OSError:
        return []
    cut = [name[: -len(ending)] for name in entries if name.endswith(ending)]
    return [name for name in cut if is_hexadecimal(name, length)]


def file_name(kind: "str", name: "str") -> "str":
    """The path of a run's line, of labels or of an object in the part of a store."""
    untrusted.hexadecimal(name, 32 if kind == RUNS else 64)
    if kind == OBJECTS:
        return "%s/%s/%s" % (OBJECTS, name[:2], name[2:])
    return "%s/%s%s" % (kind, name, ".json" if kind == RUNS else ".jsonl")


def owner_of(path: "str") -> "str":
    """``ada (uid 1000)`` for a file of another user, else empty."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return ""
    return "" if sys.platform == "win32" or owner in untrusted.own_ids() else user_name(owner)


def hashed(part: "str") -> "Iterator[tuple[str, int, str]]":
    """Digest and size of every object of a store, and why it is not what its name says; each is read."""
    for encoded, digest in object_removal.stored(os.fsencode(os.path.join(part, OBJECTS))):
        path, size = os.fsdecode(encoded), 0
        if not is_hexadecimal(digest, 64):
            continue
        try:
            descriptor = untrusted.open_file(path, within=part, follow=False)
        except (OSError, untrusted.Untrusted) as error:
            yield digest, size, reason(error)
            continue
        state = hashlib.sha256()
        with open(descriptor, "rb") as source:
            try:
                for block in iter(lambda: source.read(_BLOCK), b""):
                    state.update(block)
                    size += len(block)
                yield digest, size, "" if state.hexdigest() == digest else "its content does not match its name"
            except OSError as error:
                yield digest, size, reason(error)


def reason(error: "Exception") -> "str":
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


class Part:
    """``with Part(folder, store_id) as part:`` the caller makes sure that no other of the same store is open.

    Readers get the rights that they have on the folder itself, whatever the umask is; others never get to write.
    """

    def __init__(self, folder: "str", store_id: "str") -> "None":
        self._folder, self.path = folder, os.path.join(folder, untrusted.hexadecimal(store_id, 32))
        self._base, self._fd = self.path, None  # type: str, int | None
        self._top = os.stat(folder)
        self._unsynced = []  # type: list[str]

    def __enter__(self) -> "Part":
        try:
            with self._named():
                self._write_note()
                self._open()
                self._check_owner()
                for name in (_TEMPORARY, OBJECTS, RUNS, LABELS):
                    self._make_folder(name)
                for name in os.listdir(os.path.join(self.path, _TEMPORARY)):  # a killed push left it
                    os.unlink(self._at(os.path.join(_TEMPORARY, name)), dir_fd=self._fd)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: "object") -> "None":
        if self._fd is not None:
            os.close(self._fd)

    def enter(self) -> "None":
        """Make it the current folder of the process, for writers that take paths."""
        if sys.platform == "win32" or self._fd is None:
            os.chdir(self.path)
        else:
            os.fchdir(self._fd)

    def size(self, name: "str") -> "int":
        """Of a file that is there; -1 where there is none."""
        try:
            return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False).st_size
        except FileNotFoundError:
            return -1

    def put(self, name: "str", pieces: "Iterable[bytes]") -> "None":
        """What ``pieces`` raises leaves nothing behind. On disk only after ``settle``."""
        temporary = os.path.join(_TEMPORARY, os.urandom(8).hex() + TEMPORARY)
        with self._named():
            descriptor = os.open(self._at(temporary), _NEW, 0o600, dir_fd=self._fd)
            try:
                try:
                    for piece in pieces:
                        write_all(descriptor, piece)
                    self._share(descriptor)
                finally:
                    os.close(descriptor)
                self._make_folder(os.path.dirname(name))
                self._replace(temporary, name)
            except BaseException:
                os.unlink(self._at(temporary), dir_fd=self._fd)
                raise
        self._unsynced.append(name)

    def rename(self, name: "str", new: "str") -> "None":
        """On disk only after ``settle``. The folder that it was in goes if it is empty."""
        with self._named():
            self._replace(name, new)
        self._unsynced.append(new)
        with contextlib.suppress(OSError):
            os.rmdir(self._at(os.path.dirname(name)), dir_fd=self._fd)

    def remove(self, name: "str") -> "None":
        """A file, if it is there."""
        with self._named(), contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._fd)

    def share(self, name: "str") -> "None":
        """Give a file that was put in other ways, and its folder, the rights of the shared folder."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
        for each, is_folder in ((os.path.dirname(name), True), (name, False)):
            descriptor = os.open(self._at(each), flags, dir_fd=self._fd)
            try:
                self._share(descriptor, is_folder=is_folder)
            finally:
                os.close(descriptor)

    def settle(self) -> "None":
        """Everything that was put so far is on disk."""
        with self._named():
            if self._unsynced and not sync_file_system(os.fsencode(self._folder)):
                for name in self._unsynced:
                    fsync_path(os.path.join(self.path, name))
                for folder in {os.path.dirname(name) for name in self._unsynced}:
                    fsync_path(os.path.join(self.path, folder))
            self._unsynced = []

    def _replace(self, name: "str", new: "str") -> "None":
        os.replace(self._at(name), self._at(new), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def _write_note(self) -> "None":
        path = os.path.join(self._folder, NOTE)
        if os.path.lexists(path):
            return
        try:
            with WholeFile(path, sync=SYNCED) as target:
                target.write(ENCODED_NOTE)
                self._share(target.fileno())
        except OSError:
            if not os.path.lexists(path):  # else another first push was faster, and its file is the same
                raise

    def _open(self) -> "None":
        if sys.platform == "win32":
            os.makedirs(self.path, exist_ok=True)
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        with self._occupied():
            self._fd, self._base = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), ""

    def _check_owner(self) -> "None":
        """A new file there must have the owner of the folder; which number that is, is left to the file system."""
        if sys.platform == "win32" or self._fd is None:
            return
        name = os.urandom(8).hex() + TEMPORARY
        with self._occupied():
            probe = os.open(name, _NEW, 0o600, dir_fd=self._fd)
        try:
            owner, folder = os.fstat(probe).st_uid, os.fstat(self._fd)
        finally:
            os.close(probe)
            os.unlink(name, dir_fd=self._fd)
        if owner != folder.st_uid:
            raise self._foreign(folder.st_uid)
        self._share(self._fd, is_folder=True)

    def _foreign(self, owner: "int") -> "CannotWrite":
        return CannotWrite(FOREIGN, self.path, "owner: %s" % user_name(owner))

    @contextlib.contextmanager
    def _occupied(self) -> "Iterator[None]":
        """Where the part cannot be used because of what has its name, say so, and whose it is."""
        try:
            yield
        except OSError as error:
            status = os.lstat(self.path)
            if error.errno not in _IN_THE_WAY:
                raise
            if status.st_uid not in untrusted.own_ids():
                raise self._foreign(status.st_uid) from error
            if stat.S_ISDIR(status.st_mode):
                raise
            raise CannotWrite(NOT_A_FOLDER, self.path, str(error.strerror)) from error

    def _make_folder(self, name: "str") -> "None":
        try:
            os.mkdir(self._at(name), 0o700, dir_fd=self._fd)
        except FileExistsError:
            return
        if sys.platform != "win32":
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            descriptor = os.open(self._at(name), flags, dir_fd=self._fd)
            try:
                self._share(descriptor, is_folder=True)
            finally:
                os.close(descriptor)

    def _share(self, descriptor: "int", is_folder: "bool" = False) -> "None":
        """Group and rights of the shared folder, without writing; some file systems have neither."""
        if sys.platform == "win32":
            return
        with contextlib.suppress(OSError):
            if os.fstat(descriptor).st_gid != self._top.st_gid:
                os.fchown(descriptor, -1, self._top.st_gid)
        mode = self._top.st_mode & 0o777 & ~_WRITE
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, mode | 0o700 if is_folder else mode & 0o444 | 0o400)

    def _at(self, name: "str") -> "str":
        return os.path.join(self._base, name)

    @contextlib.contextmanager
    def _named(self) -> "Iterator[None]":
        try:
            yield
        except OSError as error:
            text = str(error.strerror or error)
            answer = "%s: %s" % (text, os.fsdecode(error.filename)) if error.filename else str(error)
            raise CannotWrite(UNWRITABLE, self._folder, answer) from error
