"""The project as content: walk, leave out what is ignored, hash what changed, store what is new.

``scan`` looks at the state of every file and reads none that the stat cache knows, so that a caller can see what is new
before a byte is written. ``Pending.store`` reads, hashes and writes. Inside, paths are bytes below the root.
"""

from __future__ import annotations

import errno
import os
import time

from holdfast.errors import ConfigError, StoreError
from holdfast.record import Record
from holdfast.runner.store.objects import Batch, Entry, HashOnly, encode_tree, has, read_tree
from holdfast.runner.store.stable_read import Changed, Unreadable
from holdfast.snapshot.scan import OWNER_EXECUTES, READ_FLAGS, Findings, Folder, LeftOut, Walk, shown
from holdfast.snapshot.stat_cache import StatCache, digest_in, file_record, folder_record, is_racy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    OnProgress = Callable[[int, int], None]

_READ_ATTEMPTS = 10
_COMMIT_EVERY = 1 << 30  # at most this much is repeated when a long snapshot was interrupted
_LARGEST_SHOWN = 10
_PAUSE_S = 0.01


class Snapshot(Record):
    """The project as stored. ``new_files`` and ``new_bytes`` count the content that the store did not have yet."""

    tree: str
    files: int
    bytes: int
    new_files: int
    new_bytes: int
    left_out: tuple[LeftOut, ...]
    warnings: tuple[str, ...]
    syncs: int = 0


def take(
    root: str,
    *,
    objects: str | None,
    cache: str | None,
    skip: Collection[str] = (),
    skip_unreadable: bool = False,
    on_progress: OnProgress | None = None,
) -> Snapshot:
    """Scan and store in one go. With ``objects=None`` everything is hashed and nothing written."""
    return scan(root, cache=cache, skip=skip, skip_unreadable=skip_unreadable).store(objects, on_progress)


def scan(root: str, *, cache: str | None, skip: Collection[str] = (), skip_unreadable: bool = False) -> Pending:
    """Find out what belongs to the project and what of it is new. ``skip`` names paths that will be linked instead."""
    findings = Findings(root, skip_unreadable)
    known = StatCache.load(cache)
    top = Walk(findings, known, skip).project()
    findings.refuse_unreadable()
    return Pending(findings, known, cache, top)


def with_files(objects: str, taken: Snapshot, files: Mapping[str, bytes]) -> Snapshot:
    """The snapshot with files that are not in the project, in folders at its top.

    A folder of the same name is replaced.
    """
    with Batch(os.fsencode(objects)) as batch:
        folders: dict[str, dict[str, bytes]] = {}
        for path, content in files.items():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, {})[name] = content
        added = {folder: batch.add_bytes(encode_tree(_entries(batch, inside))) for folder, inside in folders.items()}
        entries = [Entry(os.fsencode(folder), "dir", False, 0, digest, b"") for folder, digest in added.items()]
        kept = [entry for entry in read_tree(os.fsencode(objects), taken.tree) if os.fsdecode(entry.name) not in added]
        tree = batch.add_bytes(encode_tree([*kept, *entries]))
        batch.commit()
    size = sum(map(len, files.values()))
    return taken._replace(tree=tree, files=taken.files + len(files), bytes=taken.bytes + size)


def _entries(batch: Batch, files: Mapping[str, bytes]) -> list[Entry]:
    return [
        Entry(os.fsencode(name), "file", False, len(content), batch.add_bytes(content), b"")
        for name, content in files.items()
    ]


class Pending:
    """A scanned project: how much it holds and how much of that looks new. Nothing is stored yet."""

    def __init__(
        self,
        findings: Findings,
        known: StatCache,
        cache: str | None,
        top: Folder,
        batch: Callable[[bytes], Any] = Batch,
    ) -> None:
        self.files = findings.files
        self.bytes = findings.bytes
        self.new_files = len(findings.new)
        self.new_bytes = sum(size for size, _ in findings.new)
        self._findings = findings
        self._known = known
        self._cache = cache
        self._top = top
        self._batch = batch

    def largest(self) -> list[tuple[str, int]]:
        """The largest new files with their sizes, largest first."""
        return [(os.fsdecode(path), size) for size, path in sorted(self._findings.new, reverse=True)[:_LARGEST_SHOWN]]

    def store(self, objects: str | None, on_progress: OnProgress | None = None) -> Snapshot:
        """Put what is new into the store; with None hash it only, and write nothing at all."""
        store = None if objects is None else os.fsencode(objects)
        last = self._known.tree()
        # All parts of a tree were durable before the tree itself appeared, so its presence implies theirs.
        complete = store is None or (last is not None and has(store, last))
        if last is not None and complete and self._top.unchanged:
            return self._snapshot(last, 0, 0)
        if store is None:
            return self._write(HashOnly(), None, complete, on_progress)
        try:
            with self._batch(store) as batch:
                return self._write(batch, self._cache, complete, on_progress)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            closed = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
            hint = "set HOLDFAST_HOME to a folder you can write to" if closed else "nothing was started"
            raise StoreError(
                "the disk that holds the store is full" if full else "the snapshot could not be stored",
                where=os.fsdecode(store),
                answer=str(error),
                hint="`holdfast du` shows disk usage" if full else hint,
            ) from error

    def _write(self, batch: HashOnly, cache: str | None, complete: bool, on_progress: OnProgress | None) -> Snapshot:
        writer = _Writer(self._findings, self._known, cache, batch, complete, on_progress)
        tree = writer.folder(self._top)
        self._findings.refuse_unreadable()
        batch.commit()
        writer.save_cache(writer.folders)
        return self._snapshot(tree, writer.new_files, writer.new_bytes)._replace(syncs=batch.syncs)

    def _snapshot(self, tree: str, new_files: int, new_bytes: int) -> Snapshot:
        findings = self._findings
        return Snapshot(
            tree,
            findings.files,
            findings.bytes,
            new_files,
            new_bytes,
            tuple(findings.left_out),
            tuple(findings.warnings),
        )


class _Writer:
    """Turns walked folders into tree objects and reads the files that are not in the cache."""

    def __init__(
        self,
        findings: Findings,
        known: StatCache,
        cache: str | None,
        batch: HashOnly,
        complete: bool,
        on_progress: OnProgress | None,
    ) -> None:
        self.new_files = 0
        self.new_bytes = 0
        self.folders: dict[bytes, bytes] = {}
        self._findings = findings
        self._known = known
        self._cache = cache
        self._batch = batch
        self._complete = complete
        self._files: dict[bytes, bytes] = {}
        self._uncommitted = 0
        self._progress = _Progress(on_progress)

    def folder(self, folder: Folder) -> str:
        entries = [Entry(name, "dir", False, 0, self.folder(below), b"") for name, below in folder.folders]
        for name, target, record in folder.links:
            if record is not None:
                self._files[folder.prefix + name] = record
            entries.append(Entry(name, "link", False, 0, "", target))
        for row in folder.files:
            entry = self._file(folder.prefix + row[0], *row)
            if entry is not None:
                entries.append(entry)
        if self._complete and folder.unchanged:
            self.folders[folder.path] = self._known.folders[folder.path]
            return digest_in(self.folders[folder.path])
        digest = self._batch.add_bytes(encode_tree(entries))
        self.folders[folder.path] = folder_record(len(entries), digest)
        return digest

    def save_cache(self, folders: dict[bytes, bytes]) -> None:
        if self._cache is not None:
            try:
                StatCache(self._files, folders).save(self._cache)
            except OSError:
                pass  # the snapshot itself is safe; the next one is merely slower

    def _file(self, path: bytes, name: bytes, size: int, executable: bool, record: bytes | None) -> Entry | None:
        if record is not None and (self._complete or self._batch.holds(digest_in(record), size)):
            self._files[path] = record
            return Entry(name, "file", executable, size, digest_in(record), b"")
        added = self._read(path)
        if added is None:
            self._findings.files -= 1
            self._findings.bytes -= size
            return None
        digest, status, is_new = added
        self._findings.bytes += status.st_size - size
        self.new_files += is_new
        self.new_bytes += is_new * status.st_size
        if path not in self._findings.uncachable and not is_racy(status, self._findings.looked_ns):
            self._files[path] = file_record(status, digest)
        self._uncommitted += status.st_size
        if self._uncommitted >= _COMMIT_EVERY:
            self._uncommitted = 0
            self._batch.commit()
            self.save_cache({})
        return Entry(name, "file", status.st_mode & OWNER_EXECUTES != 0, status.st_size, digest, b"")

    def _read(self, path: bytes) -> tuple[str, os.stat_result, bool] | None:
        """Digest, state, and whether the store lacked it; None for a file that cannot be part of the snapshot."""
        before = self._batch.new_objects
        change = Changed(0)
        for attempt in range(_READ_ATTEMPTS):
            try:
                descriptor = os.open(self._findings.root + b"/" + path, READ_FLAGS)
            except FileNotFoundError:
                return None  # deleted since the walk
            except OSError as error:
                self._findings.cannot_read(path, error.strerror)
                return None
            try:
                digest, status = self._batch.add_file(descriptor, self._progress.advance)
                self._progress.files += 1
                return digest, status, self._batch.new_objects > before
            except Changed as error:
                change = error
                time.sleep(attempt * _PAUSE_S)
            except Unreadable as error:
                self._findings.cannot_read(path, str(error))
                return None
            finally:
                os.close(descriptor)
        if change.size:
            raise ConfigError(
                f"the file changed during all {_READ_ATTEMPTS} attempts to read it",
                where=shown(path),
                hint="wait until it is written, or exclude it in .amlignore",
            )
        self._findings.leave_out(path, "it is not a regular file", " but generated by the system when read")
        return None


class _Progress:
    """Says how far a long snapshot is, from its second second on, ten times a second."""

    def __init__(self, tell: OnProgress | None) -> None:
        self.files = 0
        self._bytes = 0
        self._tell = tell
        self._next = time.monotonic() + 1.0

    def advance(self, size: int) -> None:
        self._bytes += size
        if self._tell is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.1
            self._tell(self.files, self._bytes)
