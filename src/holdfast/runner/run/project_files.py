"""Keeps what a script wrote outside outputs/: new and changed files of its folder become results of the run.

So do files that it wrote to ../ and ../../: no path of a result leads upwards, so ``above/`` stands for ``../``. They
are moved to a folder of their own in outputs/, ``.project``, so that everything that handles outputs handles them,
and the manifest says which path each had. What is not kept is counted by path, for the event ``kept``.
"""

import errno
import os
import stat
import sys

from ..decoding import as_bytes, lossless
from ..store import layout, objects
from ..store.permissions import open_file, open_folder
from .outputs import digest as digest_of
from .outputs import shown

MYPY = False
if MYPY:
    from ..plan import Keep, Plan
    from ..store.objects import Entry

assert sys.platform != "win32"  # a target is never Windows

FOLDER = b".project"
ABOVE = b"above"
_UP = b"../"
_NEVER = frozenset(
    b"__pycache__ .cache .pytest_cache .mypy_cache .ruff_cache .ipynb_checkpoints .venv node_modules .tox .nox .git "
    b".hg .svn .azureml .azuremlhistory_git azureml-logs .holdfast-project .DS_Store".split()
)
_NEVER_ENDINGS = (b".pyc", b".pyo", b".egg-info")
_MARKS = frozenset((b"pyvenv.cfg", b"conda-meta", b"CACHEDIR.TAG"))  # of environments and caches, whatever their names
_NAMED = 20  # paths in each list of the event


class Kept:
    """``told`` are the fields of the event; ``trouble`` says line by line what failed."""

    def __init__(self) -> "None":
        self.folder = b""
        self.told = {}  # type: dict[str, object]
        self.trouble = []  # type: list[str]
        self.over_limit = False  # whether files stay in the script's folder because of a limit


def keep(attempt: "bytes", plan: "Plan", since: "int") -> "Kept":
    """Move the files into outputs/, which has been collected already.

    ``since`` is the time, by the clock of the file system, at which the script's folder was complete; 0 if unknown.
    """
    result = Kept()
    search = _Search(attempt, plan, since)
    search.run()
    if not (search.files or search.ignored.rows or search.trouble):
        return result
    chosen, left = _choose(search.files, plan.keep)
    above = [file for file in chosen if file.source.startswith(_UP)]
    result.trouble = search.trouble + _move(layout.work(attempt), attempt, chosen, result)
    result.over_limit = bool(left) and plan.keep.limit > 0
    over = _by_folder(left)
    if chosen or over.rows or search.ignored.rows:
        result.told = {"files": len(chosen), "bytes": sum(file.size for file in chosen), "limit": plan.keep.limit}
        result.told.update(folder=lossless(result.folder), max_files=plan.keep.files)
        result.told.update(not_kept=over.told(), ignored=search.ignored.told())
    if above:
        result.told["above"] = lossless(search.above)
    return result


class _File:
    """``source`` is relative to the script's folder, ``path`` the name of the result."""

    __slots__ = ("mtime", "path", "size", "source", "top")

    def __init__(self, source: "bytes", path: "bytes", status: "os.stat_result") -> "None":
        self.source = source
        self.path = path
        self.top = b"/".join(path.split(b"/")[: _levels(source) + 1])  # itself, or the outermost folder it is in
        self.size = 0 if stat.S_ISLNK(status.st_mode) else status.st_size
        self.mtime = status.st_mtime_ns


class _Counts:
    """Number and bytes of files, by a path that stands for them."""

    def __init__(self) -> "None":
        self.rows = {}  # type: dict[bytes, list[int]]
        self.built_in = set()  # type: set[bytes]

    def add(self, path: "bytes", files: "int", size: "int") -> "None":
        row = self.rows.setdefault(path, [0, 0])
        row[0] += files
        row[1] += size

    def told(self) -> "dict[str, object]":
        """The largest by name, and all of them as numbers."""
        largest = sorted(self.rows.items(), key=lambda item: (-item[1][1], item[0]))[:_NAMED]
        return {
            "files": sum(files for files, _ in self.rows.values()),
            "bytes": sum(size for _, size in self.rows.values()),
            "paths": [self._row(path, *row) for path, row in largest],
            "more": len(self.rows) - len(largest),
        }

    def _row(self, path: "bytes", files: "int", size: "int") -> "dict[str, object]":
        row = {"path": lossless(path), "files": files, "bytes": size}  # type: dict[str, object]
        return dict(row, built_in=True) if path in self.built_in else row


class _Search:
    """One walk over the script's folder, beside the stored tree that it was made from."""

    def __init__(self, attempt: "bytes", plan: "Plan", since: "int") -> "None":
        self.files = []  # type: list[_File]
        self.ignored = _Counts()
        self.trouble = []  # type: list[str]
        self._work = layout.work(attempt)
        self._objects = layout.objects(os.path.dirname(os.path.dirname(os.path.dirname(attempt))))
        self._tree = plan.tree
        self._since = since
        self._rules = _Rules(plan.keep.ignore)
        self._passed_over = {os.path.normpath(as_bytes(link.name)) for link in plan.links}
        self._passed_over.update(os.path.normpath(as_bytes(data.link)) for data in plan.data)
        self._passed_over.add(layout.outputs.name.encode("ascii"))
        _, above, work = layout.work.name.encode("ascii").split(b"/")
        checkpoints = os.path.basename(layout.checkpoints(attempt))
        self._passed_over.update((_UP + work, _UP + _UP + above, _UP + _UP + checkpoints))
        self._device = 0
        self.above = _free_name(self._work)

    def run(self) -> "None":
        try:
            self._device = os.lstat(self._work).st_dev
        except OSError:
            return  # the folder was never made
        waiting = [(b"", self._tree), (b"..", ""), (b"../..", "")]
        while waiting:
            folder, digest = waiting.pop()
            before = self._stored(digest)
            for entry in self._entries(folder):
                path = os.path.join(folder, entry.name)
                try:
                    if path not in self._passed_over:
                        self._look(entry, path, before.get(entry.name), waiting)
                except OSError as error:
                    self._note(path, error)

    def _look(
        self, entry: "os.DirEntry[bytes]", path: "bytes", before: "Entry | None", waiting: "list[tuple[bytes, str]]"
    ) -> "None":
        if entry.is_dir(follow_symlinks=False):
            is_new = before is None or before.kind != "dir"
            if entry.stat(follow_symlinks=False).st_dev != self._device:
                return  # mounted by the script
            open_folder(os.path.join(self._work, path))
            stated = self._rules.stated(entry.name, self._name(path), is_folder=True)
            if stated or (stated is None and is_new and (_is_never(entry.name) or self._is_marked(path))):
                self._count_ignored(path, built_in=stated is None)
            else:
                waiting.append((path, before.digest if before is not None and not is_new else ""))
            return
        status = entry.stat(follow_symlinks=False)
        open_file(os.path.join(self._work, path), status)
        if before is not None and self._is_unchanged(os.path.join(self._work, path), status, before):
            return
        name = self._name(path)
        stated = self._rules.stated(entry.name, name, is_folder=False)
        if stated or (stated is None and _is_never(entry.name)):
            self.ignored.add(name, 1, status.st_size)
            self.ignored.built_in.update([name] if stated is None else ())
        else:
            self.files.append(_File(path, name, status))

    def _name(self, path: "bytes") -> "bytes":
        """The path of a result, which never leads upwards."""
        levels = _levels(path)
        return (self.above + b"/") * levels + path[len(_UP) * levels :]

    def _is_unchanged(self, path: "bytes", status: "os.stat_result", before: "Entry") -> "bool":
        if before.kind == "link":
            return stat.S_ISLNK(status.st_mode) and os.readlink(path) == before.target
        if before.kind != "file" or not stat.S_ISREG(status.st_mode) or status.st_size != before.size:
            return False
        # A program can set a file's mtime, but not its ctime.
        return status.st_ctime_ns < self._since or digest_of(path, sync=False)[1] == before.digest

    def _stored(self, digest: "str") -> "dict[bytes, Entry]":
        """Entries of a stored folder; none where it cannot be read: then every file there counts as new."""
        try:
            return {entry.name: entry for entry in objects.read_tree(self._objects, digest)} if digest else {}
        except (objects.Damaged, OSError):
            return {}

    def _entries(self, folder: "bytes") -> "list[os.DirEntry[bytes]]":
        try:
            with os.scandir(os.path.join(self._work, folder)) as entries:
                return list(entries)
        except OSError as error:
            self._note(folder, error)
            return []

    def _is_marked(self, path: "bytes") -> "bool":
        try:
            names = set(os.listdir(os.path.join(self._work, path)))
        except OSError:
            return False  # it is named when its files are looked for
        return bool(names & _MARKS) or {b"store.json", b"objects"} <= names

    def _count_ignored(self, top: "bytes", built_in: "bool") -> "None":
        name = self._name(top) + b"/"
        self.ignored.add(name, 0, 0)
        self.ignored.built_in.update([name] if built_in else ())
        for folder, folders, names in os.walk(os.path.join(self._work, top)):
            for inner in folders:
                open_folder(os.path.join(folder, inner))
            for file in names:
                try:
                    self.ignored.add(name, 1, os.lstat(os.path.join(folder, file)).st_size)
                except OSError:
                    continue

    def _note(self, path: "bytes", error: "OSError") -> "None":
        self.trouble.append("%s could not be read: %s" % (shown(path), error.strerror or error))


class _Rules:
    """The lines of the user, the last of which that matches decides; where none does, the built-in names count."""

    def __init__(self, lines: "list[str]") -> "None":
        self._patterns = None
        if lines:
            from .. import ignore_patterns

            self._patterns = ignore_patterns.Patterns(
                tuple(ignore_patterns.parse([as_bytes(line) for line in lines], b"", b""))
            )

    def stated(self, name: "bytes", path: "bytes", is_folder: "bool") -> "bool | None":
        """Whether the user wants it ignored; None where no line says so or otherwise."""
        pattern = self._patterns.last(name, path, is_folder) if self._patterns is not None else None
        return None if pattern is None else not pattern.negative


def _levels(path: "bytes") -> "int":
    """How far above the script's folder it is."""
    return 2 if path.startswith(_UP + _UP) else 1 if path.startswith(_UP) else 0


def _free_name(work: "bytes") -> "bytes":
    """The folder among the results that stands for ../; a project may have one of that name."""
    names = (ABOVE + (b"-%d" % number if number else b"") for number in range(1000))
    return next((name for name in names if not os.path.lexists(os.path.join(work, name))), ABOVE)


def _is_never(name: "bytes") -> "bool":
    return name in _NEVER or name.endswith(_NEVER_ENDINGS)


def _choose(files: "list[_File]", limits: "Keep") -> "tuple[list[_File], list[_File]]":
    """The newest files that fit, since results are written last. A folder of too many files is left whole."""
    counts = _tops(files)
    chosen, left = [], []
    room = limits.limit
    count = 0
    for file in sorted(files, key=lambda file: (-file.mtime, file.path)):
        fits = file.size <= room and count < limits.files and counts[file.top] <= limits.files
        if fits and limits.limit:
            room -= file.size
            count += 1
            chosen.append(file)
        else:
            left.append(file)
    return chosen, left


def _by_folder(files: "list[_File]") -> "_Counts":
    """A folder at the top stands for all that is left in it, unless that is one file."""
    counts = _Counts()
    sizes = _tops(files)
    for file in files:
        counts.add(file.path if sizes[file.top] == 1 else file.top + b"/", 1, file.size)
    return counts


def _tops(files: "list[_File]") -> "dict[bytes, int]":
    """How many files there are by the first part of their paths."""
    counts = {}  # type: dict[bytes, int]
    for file in files:
        counts[file.top] = counts.get(file.top, 0) + 1
    return counts


def _move(work: "bytes", attempt: "bytes", files: "list[_File]", result: "Kept") -> "list[str]":
    """Rename the files; returns what failed."""
    if not files:
        return []
    try:
        result.folder = _make_folder(layout.outputs(attempt))
    except OSError as error:
        return ["files outside outputs/ could not be stored: %s; they are in %s" % (error.strerror, shown(work))]
    top = os.path.join(layout.outputs(attempt), result.folder)
    trouble = []
    for file in list(files):
        try:
            target = os.path.join(top, file.path)
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            os.rename(os.path.join(work, file.source), target)
        except OSError as error:
            files.remove(file)
            why = error.strerror or str(error)
            trouble.append("%s could not be stored: %s; it is in %s" % (shown(file.source), why, shown(work)))
    return trouble


def _make_folder(outputs: "bytes") -> "bytes":
    """A folder that the script has not made itself."""
    for number in range(1000):
        name = FOLDER + (b"-%d" % number if number else b"")
        try:
            os.mkdir(os.path.join(outputs, name), 0o700)
            return name
        except FileExistsError:
            continue
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
