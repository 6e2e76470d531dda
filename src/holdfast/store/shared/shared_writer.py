"""Writes into a store's own part of a shared folder: under a temporary name, then renamed; nothing is changed again.

Paths are relative to an open folder that is known to be this user's. So users who may write beside it cannot
redirect a write with a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys

from holdfast.errors import StoreError
from holdfast.runner.store.files import SYNCED, TEMPORARY, WholeFile, fsync_path, sync_file_system, write_all
from holdfast.store.shared import shared_folder
from holdfast.trust import ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TEMPORARY = "tmp"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_WRITE = 0o222
_IN_THE_WAY = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO)


class Writer:
    """``with Writer(folder, store_id) as writer:`` the caller makes sure that no other of the same store is open.

    Readers get the rights that they have on the folder itself, whatever the umask is; others never get to write.
    """

    def __init__(self, folder: str, store_id: str) -> None:
        self._folder, self.path = folder, os.path.join(folder, store_id)
        self._base, self._fd = self.path, None  # type: str, int | None
        self._top = os.stat(folder)
        self._unsynced: list[str] = []

    def __enter__(self) -> Writer:
        try:
            with self._named():
                self._write_note()
                self._open()
                self._check_owner()
                for name in (_TEMPORARY, shared_folder.OBJECTS, shared_folder.RUNS, shared_folder.LABELS):
                    self._make_folder(name)
                for name in os.listdir(os.path.join(self.path, _TEMPORARY)):  # a killed push left it
                    os.unlink(self._at(os.path.join(_TEMPORARY, name)), dir_fd=self._fd)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def size(self, name: str) -> int:
        """Of a file that is there; -1 where there is none."""
        try:
            return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False).st_size
        except FileNotFoundError:
            return -1

    def put(self, name: str, pieces: Iterable[bytes]) -> None:
        """What ``pieces`` raises leaves nothing behind. On disk only after ``settle``."""
        temporary = os.path.join(_TEMPORARY, f"{os.urandom(8).hex()}{TEMPORARY}")
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
                os.replace(self._at(temporary), self._at(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except BaseException:
                os.unlink(self._at(temporary), dir_fd=self._fd)
                raise
        self._unsynced.append(name)

    def remove(self, name: str) -> None:
        with self._named():
            os.unlink(self._at(name), dir_fd=self._fd)

    def settle(self) -> None:
        """Everything that was put so far is on disk."""
        with self._named():
            if self._unsynced and not sync_file_system(os.fsencode(self._folder)):
                for name in self._unsynced:
                    fsync_path(os.path.join(self.path, name))
                for folder in {os.path.dirname(name) for name in self._unsynced}:
                    fsync_path(os.path.join(self.path, folder))
            self._unsynced.clear()

    def _write_note(self) -> None:
        path = os.path.join(self._folder, shared_folder.NOTE)
        if os.path.lexists(path):
            return
        try:
            with WholeFile(path, sync=SYNCED) as target:
                target.write(shared_folder.encoded_note())
                self._share(target.fileno())
        except OSError:
            if not os.path.lexists(path):  # else another first push was faster, and its file is the same
                raise

    def _open(self) -> None:
        if sys.platform == "win32":
            os.makedirs(self.path, exist_ok=True)
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        with self._occupied():
            self._fd, self._base = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), ""

    def _check_owner(self) -> None:
        """A new file there must have the owner of the folder; which number that is, is left to the file system."""
        if sys.platform == "win32" or self._fd is None:
            return
        name = f"{os.urandom(8).hex()}{TEMPORARY}"
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

    def _foreign(self, owner: int) -> StoreError:
        answer = f"owner: {ownership.user_name(owner)}"
        hint = "only this store writes there: ask the owner to remove it, or push to another folder"
        return StoreError("the part of this store belongs to another user", where=self.path, answer=answer, hint=hint)

    @contextlib.contextmanager
    def _occupied(self) -> Iterator[None]:
        """Where the part cannot be used because of what has its name, say so, and whose it is."""
        try:
            yield
        except OSError as error:
            status = os.lstat(self.path)
            if error.errno not in _IN_THE_WAY:
                raise
            if status.st_uid not in ownership.own_ids():
                raise self._foreign(status.st_uid) from error
            if stat.S_ISDIR(status.st_mode):
                raise
            what, hint = "the part of this store is not a folder", "remove it, then push again"
            raise StoreError(what, where=self.path, answer=str(error.strerror), hint=hint) from error

    def _make_folder(self, name: str) -> None:
        try:
            os.mkdir(self._at(name), 0o700, dir_fd=self._fd)
        except FileExistsError:
            return
        if sys.platform != "win32":
            descriptor = os.open(self._at(name), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._fd)
            try:
                self._share(descriptor, is_folder=True)
            finally:
                os.close(descriptor)

    def _share(self, descriptor: int, *, is_folder: bool = False) -> None:
        """Group and rights of the shared folder, without writing; some file systems have neither."""
        if sys.platform == "win32":
            return
        with contextlib.suppress(OSError):
            if os.fstat(descriptor).st_gid != self._top.st_gid:
                os.fchown(descriptor, -1, self._top.st_gid)
        mode = self._top.st_mode & 0o777 & ~_WRITE
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, mode | 0o700 if is_folder else mode & 0o444 | 0o400)

    def _at(self, name: str) -> str:
        return os.path.join(self._base, name)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "free disk space there, or check that you may write to this folder; then push again"
            answer = f"{error.strerror or error}: {os.fsdecode(error.filename)}" if error.filename else str(error)
            raise StoreError(
                "the shared folder cannot be written", where=self._folder, answer=answer, hint=hint
            ) from error
