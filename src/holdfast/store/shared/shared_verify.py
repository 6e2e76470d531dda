"""Verifies a shared folder against its hashes: ``holdfast store verify --folder FOLDER``."""

from __future__ import annotations

import os

from holdfast.runner import untrusted
from holdfast.runner.store import object_removal
from holdfast.store import verify
from holdfast.store.audit import Problem
from holdfast.store.shared import shared_folder, shared_labels
from holdfast.store.shared.local_folder import LocalWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.shared.local_folder import LocalFolder
    from holdfast.store.shared.shared_folder import Author, SharedRun

_CHANGED = "its content does not match its name"


def audit(home: Home, folder: LocalFolder, on_progress: Callable[[int, int], None]) -> list[Problem]:
    """All damage, store by store. ``on_progress`` is called with the number of files and bytes read."""
    result: list[Problem] = []
    files, size = 0, 0
    for author in folder.authors():
        part = _Part(folder, author, _todo(home, author, folder.path))
        for read in part.files():
            files, size = files + 1, size + read
            on_progress(files, size)
        result += part.problems
    return result


def repair(home: Home, folder: LocalFolder, problems: list[Problem]) -> list[Problem]:
    """Remove damaged files of this store's own part, and the lines of their runs, so that they can be pushed again."""
    own = os.path.join(folder.path, home.id)
    mine = [problem for problem in problems if problem.path.startswith(own + os.sep)]
    if mine:
        with home.lock("push"), LocalWriter(folder.path, home.id) as writer:
            for path in sorted({problem.path for problem in mine}):
                writer.remove(os.path.relpath(path, own))
    return [problem for problem in problems if problem not in mine]


class _Part:
    """What one store pushed. ``problems`` is complete when ``files`` has been read to its end."""

    def __init__(self, folder: LocalFolder, author: Author, todo: str) -> None:
        self._folder, self._author, self._todo = folder, author, todo
        self._intact: dict[str, int] = {}
        self._complete: set[str] = set()  # folders of snapshots of which everything is there
        self.problems: list[Problem] = []

    def files(self) -> Iterator[int]:
        """Sizes of the files as they are read."""
        root = os.fsencode(os.path.join(self._author.path, shared_folder.OBJECTS))
        for encoded, digest in object_removal.stored(root):
            yield self._check_object(os.fsdecode(encoded), digest)
        for name in self._folder.names(self._author, shared_folder.LABELS):
            try:
                yield self._check_labels(name)
            except (OSError, ValueError) as error:
                self._add("labels", self._author.labels_path(name), str(error))
        for uid in self._folder.names(self._author, shared_folder.RUNS):
            yield self._check_run(uid)

    def _check_object(self, path: str, digest: str) -> int:
        size = os.lstat(path).st_size
        what = verify.compare(path, size, digest, changed=_CHANGED)
        if what:
            self._add("object", path, what)
        else:
            self._intact[digest] = size
        return size

    def _check_labels(self, name: str) -> int:
        lines = shared_folder.read_labels(self._author, name)
        for number, line in enumerate(lines, 1):
            try:
                is_label = shared_labels.is_label(untrusted.loads(line))
            except ValueError:
                is_label = False
            if not is_label:
                raise untrusted.Untrusted(f"line {number} is not a label")
        return sum(map(len, lines))

    def _check_run(self, uid: str) -> int:
        """Its line, and that all files and code that it names are there."""
        path = self._author.run_path(uid)
        try:
            shared = shared_folder.read_run(self._author, uid)
            for name, (size, digest) in shared.files.items():
                if self._intact.get(digest) != size:
                    raise ValueError(f"{shared.run_id}: {name} is missing or damaged")
            if shared.tree:
                self._check_code(shared)
            return os.lstat(path).st_size
        except (OSError, ValueError) as error:
            self._add("run", path, str(error))
            return 0

    def _check_code(self, shared: SharedRun) -> None:
        folders = []
        is_known = self._complete.__contains__
        for digest, _, entries in shared_folder.trees(self._author, shared.tree, is_known, lambda *_: None):
            folders.append(digest)
            for entry in entries:
                if entry.kind == "file" and entry.digest not in self._intact:
                    raise ValueError(f"{shared.run_id}: a file of its code is missing or damaged: {entry.name!a}")
        self._complete.update(folders)

    def _add(self, kind: str, path: str, what: str) -> None:
        self.problems.append(Problem(kind, path, what.removeprefix(f"{path}: "), self._todo))


def _todo(home: Home, author: Author, folder: str) -> str:
    if author.id == home.id:
        from shlex import quote

        shown = quote(folder)
        return f"holdfast store verify --folder {shown} --repair, then holdfast history push {shown} --all"
    return f"ask {author.owner_name or 'its owner'} to verify and push again"
