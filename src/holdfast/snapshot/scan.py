"""Walks over a project: which files, links and folders belong to a snapshot, and which must be read."""

from __future__ import annotations

import errno
import os
import stat
import time

from holdfast.errors import ConfigError
from holdfast.record import Record
from holdfast.runner.decoding import escaped
from holdfast.runner.store.objects import MAX_DEPTH
from holdfast.snapshot.ignore import (
    IGNORE_FILES,
    SECRET_HEAD,
    Rule,
    Rules,
    marked_folder,
    secret_by_content,
    secret_by_name,
    secret_folder,
)
from holdfast.snapshot.stat_cache import StatCache, is_racy, link_record, state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
OWNER_EXECUTES = 0o100
_SECRETS_NAMED = 5


class LeftOut(Record):
    """A file or folder of the project that the snapshot does not hold; ``why`` is the rule or the reason."""

    path: str
    why: Rule | str


class Findings:
    """What a walk and the reading after it have to tell."""

    def __init__(self, root: str, skip_unreadable: bool) -> None:
        self.root = os.fsencode(root)
        self.looked_ns = time.time_ns()
        self.files = 0
        self.bytes = 0
        self.new: list[tuple[int, bytes]] = []
        self.uncachable: set[bytes] = set()
        self.left_out: list[LeftOut] = []
        self._warnings: list[str] = []
        self._secrets: list[tuple[bytes, str]] = []
        self._unreadable: list[tuple[bytes, str]] = []
        self._skip_unreadable = skip_unreadable

    def leave_out(self, path: bytes, why: Rule | str, advice: str = "") -> None:
        """Without advice there is no warning: a rule of the user's excluded it."""
        self.left_out.append(LeftOut(os.fsdecode(path), why))
        if advice:
            self.warn(path, f"excluded: {why}{advice}")

    def leave_out_secret(self, path: bytes, kind: str) -> None:
        self._secrets.append((path, f"it looks like {kind}"))
        self.leave_out(path, self._secrets[-1][1])

    def warn(self, path: bytes, text: str) -> None:
        self._warnings.append(f"{shown(path)}: {text}")

    @property
    def warnings(self) -> list[str]:
        """All likely secrets share one line."""
        if not self._secrets:
            return self._warnings
        named = ", ".join(shown(path) for path, _ in sorted(self._secrets)[:_SECRETS_NAMED])
        more = len(self._secrets) - _SECRETS_NAMED
        named += f" and {more} more" if more > 0 else ""
        why = self._secrets[0][1] if len(self._secrets) == 1 else "they look like secrets"
        return [*self._warnings, f"{named}: excluded: {why}; a line `!name` in .amlignore includes one"]

    def cannot_read(self, path: bytes, answer: str | None) -> None:
        self._unreadable.append((path, answer or "unreadable"))

    def refuse_unreadable(self) -> None:
        if self._unreadable and not self._skip_unreadable:
            count = len(self._unreadable)
            raise ConfigError(
                "a file of the project cannot be read"
                if count == 1
                else f"{count} files of the project cannot be read",
                where=shown(self.root),
                answer="\n".join(f"{shown(path)}: {answer}" for path, answer in sorted(self._unreadable)),
                hint="make them readable, exclude them in .amlignore, or use --skip-unreadable",
            )
        for path, answer in self._unreadable:
            self.leave_out(path, f"it cannot be read ({answer})", ", as requested")
        self._unreadable.clear()


class Folder:
    """A folder as seen by the walk."""

    __slots__ = ("files", "folders", "links", "path", "prefix", "unchanged")

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.prefix = path + b"/" if path else b""
        # name, size, whether it is executable, what the cache knows of it if that still holds
        self.files: list[tuple[bytes, int, bool, bytes | None]] = []
        self.links: list[tuple[bytes, bytes, bytes | None]] = []  # name, target, what the cache shall know of it
        self.folders: list[tuple[bytes, Folder]] = []
        self.unchanged = False

    def count(self) -> int:
        return len(self.files) + len(self.links) + len(self.folders)


class Walk:
    def __init__(self, findings: Findings, known: StatCache, skip: Collection[str]) -> None:
        self._findings = findings
        self._known = known
        self._skip = frozenset(os.fsencode(os.path.normpath(name)) for name in skip)

    def project(self) -> Folder:
        root = self._findings.root
        try:
            with os.scandir(root) as listing:
                entries = list(listing)
        except OSError as error:
            raise ConfigError("the project folder cannot be read", where=shown(root), answer=str(error)) from error
        rules = Rules.of_project(root, {entry.name for entry in entries})
        return self._fill(Folder(b""), entries, rules, 0)

    def _below(self, path: bytes, rules: Rules, depth: int) -> Folder | None:
        where = self._findings.root + b"/" + path
        if depth > MAX_DEPTH:
            raise ConfigError(f"folders are nested deeper than {MAX_DEPTH}", where=shown(path))
        try:
            with os.scandir(where) as listing:
                entries = list(listing)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._findings.cannot_read(path, error.strerror)
            return None
        names = {entry.name for entry in entries}
        if mark := self._marked(names):
            self._findings.leave_out(path, mark)
            return None
        return self._fill(Folder(path), entries, rules.inside(where, path, names), depth)

    def _marked(self, names: set[bytes]) -> Rule | None:
        """Why a folder with these names is no part of it."""
        return marked_folder(names)

    def _secret_folder(self, name: bytes, path: bytes, rules: Rules) -> str:
        kind = secret_folder(name, path)
        return "" if kind and rules.insist_on(name, path, is_folder=True) else kind

    def _fill(self, folder: Folder, entries: list[os.DirEntry[bytes]], rules: Rules, depth: int) -> Folder:
        known, skip, prefix, leaves_out = self._known.files.get, self._skip, folder.prefix, rules.leaves_out
        unchanged = True
        for entry in entries:
            name = entry.name
            path = prefix + name
            if path in skip:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if rule := leaves_out(name, path, is_folder):
                self._findings.leave_out(path, rule)
            elif is_folder and (kind := self._secret_folder(name, path, rules)):
                self._findings.leave_out_secret(path, kind)
            elif is_folder:
                if (below := self._below(path, rules, depth + 1)) is not None:
                    folder.folders.append((name, below))
                    unchanged = unchanged and below.unchanged
            else:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # gone since the folder was listed
                record = known(path)
                if record is not None and not record.startswith(state_of(status)):
                    record = None
                if entry.is_symlink():
                    self._link(folder, name, path, status)
                elif record is not None or self._admits(name, path, status, rules):
                    folder.files.append((name, status.st_size, status.st_mode & OWNER_EXECUTES != 0, record))
                else:
                    continue
                unchanged = unchanged and record is not None
        folder.unchanged = unchanged and self._known.entries_in(folder.path) == folder.count()
        self._findings.files += len(folder.files)
        self._findings.bytes += sum(row[1] for row in folder.files)
        return folder

    def _link(self, folder: Folder, name: bytes, path: bytes, status: os.stat_result) -> None:
        """A link is kept as a link, never followed."""
        try:
            target = os.readlink(self._findings.root + b"/" + path)
        except OSError as error:
            self._findings.cannot_read(path, error.strerror)
            return
        if name in IGNORE_FILES:
            self._findings.warn(path, "a symbolic link: its patterns are not applied; use a regular file")
        landing = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if landing.startswith((b"/", b"../")) or landing == b"..":
            self._findings.warn(
                path, f"a symbolic link that leads out of the project, to {shown(target)}; kept as a link"
            )
        record = None if is_racy(status, self._findings.looked_ns) else link_record(status)
        folder.links.append((name, target, record))

    def _admits(self, name: bytes, path: bytes, status: os.stat_result, rules: Rules) -> bool:
        """Whether a file that the cache does not know belongs into the snapshot."""
        where = self._findings.root + b"/" + path
        if not stat.S_ISREG(status.st_mode):
            self._findings.leave_out(path, "it is not a regular file", " but a pipe, socket or device")
            return False
        if not _readable(where):
            if os.path.lexists(where):  # else: gone since the folder was listed
                self._findings.cannot_read(path, os.strerror(errno.EACCES))
            return False
        kind = secret_by_name(name, path) or secret_by_content(name, status, lambda: _head(where))
        if kind and not rules.insist_on(name, path):
            self._findings.leave_out_secret(path, kind)
            return False
        if kind:
            self._findings.uncachable.add(path)  # so that the question is asked again when .amlignore changes
        self._findings.new.append((status.st_size, path))
        return True


def shown(path: bytes) -> str:
    """A path as it can be printed on one line of any terminal."""
    text = escaped(path)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _readable(path: bytes) -> bool:
    if os.access in os.supports_effective_ids:
        return os.access(path, os.R_OK, effective_ids=True)
    return os.access(path, os.R_OK)


def _head(path: bytes) -> bytes:
    try:
        descriptor = os.open(path, READ_FLAGS)
    except OSError:
        return b""
    try:
        return os.read(descriptor, SECRET_HEAD)
    finally:
        os.close(descriptor)
