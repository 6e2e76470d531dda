"""Verifies a shared folder against its hashes: ``holdfast store verify --folder FOLDER``.

Objects are read where they are: on a target by its runner. Lines and labels are checked here.
"""

from __future__ import annotations

import os

from holdfast.runner import untrusted
from holdfast.store.audit import Problem
from holdfast.store.shared import shared_folder, shared_labels
from holdfast.store.shared.shared_folder import LABELS, LARGEST_LINES, OBJECTS, RUNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.shared.shared_folder import Author, SharedFolder, SharedRun

_AT_ONCE = 1000  # lines that are brought from a target together
_NEWER = "newer"  # the kind of a problem that is no damage


def audit(home: Home, folder: SharedFolder, on_progress: Callable[[int, int], None]) -> list[Problem]:
    """All damage, store by store. ``on_progress`` is called with the number of files and bytes read."""
    result: list[Problem] = []
    files, size = 0, 0
    for author in folder.authors():
        part = _Part(folder, author, _todo(home, author, folder.name))
        for read in part.files():
            files, size = files + 1, size + read
            on_progress(files, size)
        result += part.problems
    return result


def repair(home: Home, folder: SharedFolder, problems: list[Problem]) -> list[Problem]:
    """Remove damaged files of this store's own part, and the lines of their runs, so that they can be pushed again.

    Lines of a newer Holdfast stay.
    """
    own = next((folder.shown(author) for author in folder.authors() if author.id == home.id), "")
    damaged = [problem for problem in problems if problem.kind != _NEWER]
    mine = [problem for problem in damaged if own and problem.path.startswith(f"{own}{os.sep}")]
    if mine:
        with home.lock("push"), folder.writer(home.id) as writer:
            for path in sorted({problem.path for problem in mine}):
                kind, *names = path[len(own) + 1 :].split(os.sep)
                writer.remove(kind, "".join(names).partition(".")[0])
    return [problem for problem in problems if problem not in mine]


class _Part:
    """What one store pushed. ``problems`` is complete when ``files`` has been read to its end."""

    def __init__(self, folder: SharedFolder, author: Author, todo: str) -> None:
        self._folder, self._author, self._todo = folder, author, todo
        self._intact: dict[str, int] = {}
        self._complete: set[str] = set()  # folders of snapshots of which everything is there
        self.problems: list[Problem] = []

    def files(self) -> Iterator[int]:
        """Sizes of the files as they are read."""
        for digest, size, what in self._folder.objects(self._author):
            if what:
                self._add("object", OBJECTS, digest, what)
            else:
                self._intact[digest] = size
            yield size
        for name in self._brought(LABELS):
            try:
                yield self._check_labels(name)
            except shared_folder.NewerVersionError as error:
                self._add(_NEWER, LABELS, name, str(error))
            except (OSError, ValueError) as error:
                self._add("labels", LABELS, name, str(error))
        for uid in self._brought(RUNS):
            yield self._check_run(uid)

    def _brought(self, kind: str) -> Iterator[str]:
        """The names of lines or labels that can be read below the author's path; for others there is a problem."""
        names = self._folder.names(self._author, kind)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            wrong = self._folder.bring(self._author, kind, dict.fromkeys(some, LARGEST_LINES))
            for name in some:
                if name in wrong:
                    self._add("labels" if kind == LABELS else "run", kind, name, wrong[name])
                else:
                    yield name

    def _check_labels(self, name: str) -> int:
        lines = shared_folder.read_labels(self._author, name)
        for number, line in enumerate(lines, 1):
            try:
                value = untrusted.loads(line)
            except ValueError:
                value = None
            if isinstance(value, dict):
                shared_folder.check_version(value, f"line {number}")
            if not shared_labels.is_label(value):
                raise untrusted.Untrusted(f"line {number} is not a label")
        return sum(map(len, lines))

    def _check_run(self, uid: str) -> int:
        """Its line, and that all files and code that it names are there."""
        try:
            shared = shared_folder.read_run(self._author, uid)
            for name, (size, digest) in shared.files.items():
                if self._intact.get(digest) != size:
                    raise ValueError(f"{shared.run_id}: {name} is missing or damaged")
            if shared.tree:
                self._check_code(shared)
            return os.lstat(self._author.run_path(uid)).st_size
        except shared_folder.NewerVersionError as error:
            self._add(_NEWER, RUNS, uid, str(error))
            return 0
        except (OSError, ValueError) as error:
            self._add("run", RUNS, uid, str(error))
            return 0
        finally:
            self._folder.forget(self._author)

    def _check_code(self, shared: SharedRun) -> None:
        folders = []
        is_known = self._complete.__contains__

        def bring(digests: list[str], most: int) -> None:
            self._folder.bring(self._author, OBJECTS, dict.fromkeys(digests, most), most)

        for digest, _, entries in shared_folder.trees(self._author, shared.tree, is_known, bring):
            folders.append(digest)
            for entry in entries:
                if entry.kind == "file" and entry.digest not in self._intact:
                    raise ValueError(f"{shared.run_id}: a file of its code is missing or damaged: {entry.name!a}")
        self._complete.update(folders)

    def _add(self, kind: str, part: str, name: str, what: str) -> None:
        here = self._author.file(part, name)
        path = os.path.join(self._folder.shown(self._author), os.path.relpath(here, self._author.path))
        todo = "use the version of Holdfast that wrote it" if kind == _NEWER else self._todo
        self.problems.append(Problem(kind, path, what.removeprefix(f"{here}: ").removeprefix(f"{here} "), todo))


def _todo(home: Home, author: Author, folder: str) -> str:
    if author.id == home.id:
        from shlex import quote

        shown = quote(folder)
        return f"holdfast store verify --folder {shown} --repair, then holdfast history push {shown} --all"
    return f"ask {author.owner_name or 'its owner'} to verify and push again"
