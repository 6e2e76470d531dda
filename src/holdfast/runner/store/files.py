"""Atomic and durable writes. A failed fsync is never tried again: the data may be lost."""

import os
import stat
import sys

from .. import untrusted

MYPY = False
if MYPY:
    from typing import Any, AnyStr, BinaryIO

UNSYNCED, SYNCED, DURABLE = range(3)
TEMPORARY = ".tmp"  # how the names of files and folders end that are being written
_LONGEST_KEPT = 200  # bytes of a file's name in that of its temporary; a name has 255


def write_all(descriptor: "int", data: "bytes") -> "None":
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def unlink_quietly(path: "AnyStr") -> "None":
    try:
        os.unlink(path)
    except OSError:
        pass  # sweep takes it later; the failure that brought us here is the one to tell


def temporary_beside(path: "AnyStr") -> "AnyStr":
    """A name in the same folder for what is not whole yet: that of the file, cut where it is long, and an ending."""
    folder, name = os.path.split(path)
    beside = _kept_name(name) + (".%s%s" % (os.urandom(8).hex(), TEMPORARY)).encode("ascii")
    return os.path.join(folder, beside if isinstance(path, bytes) else os.fsdecode(beside))


def is_temporary(path: "AnyStr") -> "bool":
    """Whether a file or folder was begun and has not been given its name."""
    return path.endswith(TEMPORARY.encode("ascii") if isinstance(path, bytes) else TEMPORARY)


def remove_leftovers(path: "AnyStr") -> "None":
    """Remove what killed writers of this file left beside it. A writer that is alive holds a lock on its temporary."""
    import re  # costly, and runs do not need it

    folder, name = os.path.split(os.fsencode(os.path.abspath(path)))
    pattern = re.compile(re.escape(_kept_name(name)) + rb"\.[0-9a-f]{16}" + re.escape(TEMPORARY.encode("ascii")))
    try:
        names = [each for each in os.listdir(folder) if pattern.fullmatch(each)]
    except OSError:
        return
    for each in names:
        _remove_unlocked(os.path.join(folder, each))


def _kept_name(name: "str | bytes") -> "bytes":
    """The name of a file as in that of its temporary."""
    return os.fsencode(name)[:_LONGEST_KEPT].decode("utf-8", "ignore").encode("utf-8")


def _remove_unlocked(path: "bytes") -> "None":
    if sys.platform == "win32":
        unlink_quietly(path)  # fails for an open file
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and _lock(fd):
            unlink_quietly(path)
    finally:
        os.close(fd)


def _lock(fd: "int") -> "bool":
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # of another process, or a file system without locks
        return False
    return True


class WholeFile:
    """``with WholeFile(path) as target:`` what is written to ``target`` gets its name when the block ends.

    Until then, and after an error, whatever had the name keeps it. ``sync`` says what a power cut may leave: with
    UNSYNCED perhaps an empty file, with SYNCED the old or the new content, with DURABLE the new. With ``new`` a file
    of this name is a FileExistsError. With ``keep_mode`` the file gets the mode of the one that it replaces; it is one
    of the user's, in a folder that nothing sweeps, and what killed writers of it left is removed.
    """

    def __init__(
        self,
        path: "AnyStr",
        mode: "int" = 0o600,
        sync: "int" = DURABLE,
        new: "bool" = False,
        keep_mode: "bool" = False,
    ) -> "None":
        self._path: "Any" = path
        self._mode, self._sync, self._new, self._keep_mode = mode, sync, new, keep_mode

    def __enter__(self) -> "BinaryIO":
        if self._keep_mode:
            remove_leftovers(self._path)
        self._temporary = temporary_beside(self._path)
        try:
            fd = untrusted.create_file(self._temporary, self._mode)
            if self._keep_mode:
                _lock(fd)
        except OSError as error:
            self._name(error)
            raise
        self._file: "BinaryIO" = os.fdopen(fd, "wb")
        return self._file

    def __exit__(self, kind: "object", error: "BaseException | None", trace: "object") -> "None":
        try:
            if error is None:
                self._publish()
            elif isinstance(error, OSError) and error.filename is None:
                error.filename = self._path  # errors of a write or a sync know no name
        except OSError as own:
            self._name(own)
            raise
        finally:
            _close_quietly(self._file)
            unlink_quietly(self._temporary)

    def _publish(self) -> "None":
        if self._keep_mode and os.path.exists(self._path):
            os.chmod(self._temporary, os.stat(self._path).st_mode & 0o7777)
        self._file.flush()
        if self._sync:
            os.fsync(self._file.fileno())
        self._file.close()
        if self._new:
            os.link(self._temporary, self._path)
        else:
            os.replace(self._temporary, self._path)
        if self._sync == DURABLE:
            fsync_path(os.path.dirname(os.path.abspath(self._path)))

    def _name(self, error: "OSError") -> "None":
        if error.filename in (None, self._temporary):
            error.filename, error.filename2 = self._path, None


def write_whole(
    path: "AnyStr", data: "bytes", mode: "int" = 0o600, sync: "int" = DURABLE, keep_mode: "bool" = False
) -> "None":
    """Give a file this content in one step."""
    with WholeFile(path, mode, sync, keep_mode=keep_mode) as target:
        target.write(data)


def note(path: "AnyStr", data: "bytes") -> "None":
    """The same for a note that can be made again: a disk that does not take it is no error."""
    try:
        write_whole(path, data, sync=UNSYNCED)
    except OSError:
        pass


def replace_link(path: "AnyStr", target: "AnyStr") -> "None":
    """A symbolic link in place of whatever file has the name."""
    temporary = temporary_beside(path)
    try:
        os.symlink(target, temporary)
        os.replace(temporary, path)
    except OSError:
        unlink_quietly(temporary)
        raise


def write_synced(path: "AnyStr", data: "bytes") -> "None":
    """A new file, on disk when this returns; for a folder that gets its own name only when it is whole."""
    fd = untrusted.create_file(path)
    try:
        write_all(fd, data)
        os.fsync(fd)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)


def _close_quietly(file: "BinaryIO") -> "None":
    try:
        file.close()
    except OSError:
        pass  # what it could not write was told by the error that brought us here


def make_private(folder: "bytes") -> "None":
    for each in (os.path.dirname(folder), folder):  # makedirs gives its mode to the last one only
        os.makedirs(each, mode=0o700, exist_ok=True)


def fsync_path(path: "AnyStr") -> "None":
    """Sync a file or directory by name. Windows cannot open a directory, nor does it need to."""
    if sys.platform == "win32" and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)


def sync_file_system(path: "bytes") -> "bool":
    """One sync for everything on the file system that holds ``path``; False where that cannot be relied on."""
    if not sys.platform.startswith("linux") or _kernel_version() < (5, 8):
        return False  # before 5.8 syncfs answers success for data it could not write
    try:
        import ctypes

        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):
        return False
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(descriptor)
    return True


def _kernel_version() -> "tuple[int, ...]":
    if sys.platform == "win32":
        return (0,)
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(number) if number.isdigit() else 0 for number in numbers)
