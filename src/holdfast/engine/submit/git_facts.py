"""Git facts of a project at submit: commit, branch, whether there are changes, and their diff.

The configuration of a repository can name programs: filters, hooks, file monitors, transports. So git never reads it:
it runs on a folder of our own with a fixed configuration, which borrows the repository's index and objects. Git is
started before the project is read and is waited for no longer than a second.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time

from holdfast.engine.connection.transport import readable_of
from holdfast.engine.submit import git_repository
from holdfast.project import FILE as IDENTITY
from holdfast.runner.store import layout
from holdfast.runner.store.files import temporary_beside, write_all
from holdfast.runner.store.remove_tree import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.submit.git_repository import Repository
    from holdfast.model import Json

LONGEST_DIFF = 1 << 20
_LONGEST_LIST = 4 << 20
_LONGEST_ARGUMENTS = 100_000
_PATIENCE_S = 1.0
_HEAD = b"ref: refs/heads/none\n"
_CONFIG = {
    40: b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    64: b"[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n",
}
# A submodule has a configuration of its own, so git does not look inside: only another commit there is a difference.
_DIFF = (
    *("diff", "--patch-with-raw", "-z", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules=dirty", "--submodule=short", "--binary"),
)
# The first submit writes the project's identity, which is no change of the user's.
_UNTRACKED = (
    *("ls-files", "-z", "--others", "--directory", "--no-empty-directory", "--exclude-standard"),
    f"--exclude={IDENTITY}",
)


class Begun:
    """``Begun(root, cache)`` starts to ask; ``result()`` is what belongs into run.json; ``keep`` writes the difference.

    ``cache`` is the store's folder for files that can be made again.
    """

    def __init__(self, root: str, cache: str) -> None:
        self._diff = b""
        self._until = time.monotonic() + _PATIENCE_S
        self._repository = git_repository.find(root)
        self._commit, self._branch = self._repository.head() if self._repository else (None, None)
        self._comparison: _Comparison | None = None
        if self._repository is not None and self._repository.is_comparable and sys.platform != "win32":
            try:
                self._comparison = _Comparison(root, self._repository, self._commit, cache)
            except OSError:
                self._comparison = None  # the disk has no space for the folder that git needs

    def result(self) -> Json | None:
        """``commit``, ``branch`` (None if detached) and, if git answered in time, ``dirty`` and ``diff``.

        ``filtered`` counts files that may differ and were not compared: only a filter of the repository could tell.
        """
        if self._repository is None:
            return None
        facts: Json = {"commit": self._commit, "branch": self._branch}
        if self._comparison is not None:
            changes, patch = self._comparison.result(self._until)
            facts.update(changes)
            self._diff = patch[:LONGEST_DIFF]
        if self._diff:
            digest = hashlib.sha256(self._diff).hexdigest()
            facts["diff"] = {"bytes": len(self._diff), "sha256": digest, "whole": len(patch) <= LONGEST_DIFF}
        return facts

    def keep(self, folder: str) -> None:
        """Put the difference into the run's folder, as ``git.diff``."""
        if not self._diff:
            return
        descriptor = os.open(layout.git_diff(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write_all(descriptor, self._diff)
        finally:
            os.close(descriptor)


class _Comparison:
    """The work tree below ``root`` beside a commit; without a commit, everything in it is new."""

    def __init__(self, root: str, repository: Repository, commit: str | None, cache: str) -> None:
        self._root = root
        self._repository = repository
        self._commit = commit
        self._environment = _environment(repository, _clean_folder(cache, len(commit or "") or 40))
        settings = [word for name, value in repository.settings().items() for word in ("-c", f"{name}={value}")]
        self._git = ("git", "--no-optional-locks", "--no-pager", *settings)
        excludes = [f"--exclude-from={path}" for path in repository.excludes()]
        cached = [] if commit else ["--cached"]
        self._new = self._start(root, *_UNTRACKED, *cached, *excludes, "--", ".")
        self._changed = self._start(root, *_DIFF, commit, "--", ".") if commit else None

    def result(self, until: float) -> tuple[Json, bytes]:
        """What run.json says of it, and the difference."""
        new = self._new.answer(until, 0)
        output = self._changed.answer(until, _LONGEST_LIST + LONGEST_DIFF) if self._changed else b""
        if new is None or output is None:
            return ({"dirty": True} if new else {}), b""
        paths, patch = _split(output)
        filtered = self._filtered(paths, until) if paths else []
        if filtered:
            patch = self._without(filtered, until)
        facts: Json = {"filtered": len(filtered)} if filtered else {}
        if new or len(paths) > len(filtered):
            facts["dirty"] = True
        elif not filtered:
            facts["dirty"] = False
        return facts, patch

    def _filtered(self, paths: list[bytes], until: float) -> list[bytes]:
        """Those whose content in a commit is made by a program that the repository names, which is not started."""
        few = _as_arguments(paths)
        child = self._start(self._repository.work_tree, "check-attr", "-z", "filter", "--", *map(os.fsdecode, few))
        fields = (child.answer(until, _LONGEST_LIST) or b"").split(b"\0")
        values = dict(zip(fields[::3], fields[2::3], strict=False))
        return [path for path in few if values.get(path, b"unspecified") not in (b"unspecified", b"unset")]

    def _without(self, paths: list[bytes], until: float) -> bytes:
        left_out = [f":(exclude,top,literal){os.fsdecode(path)}" for path in paths]
        child = self._start(self._root, *_DIFF, str(self._commit), "--", ".", *left_out)
        return _split(child.answer(until, _LONGEST_LIST + LONGEST_DIFF) or b"")[1]

    def _start(self, folder: str, *arguments: str) -> _Child:
        return _Child((*self._git, "-C", folder, *arguments), self._environment)


class _Child:
    """A git whose answer is awaited later; killed when it is not wanted any more."""

    def __init__(self, argv: tuple[str, ...], environment: dict[str, str]) -> None:
        self._source, sink = os.pipe()
        try:
            self._pid = _spawn(argv, environment, sink)
        except OSError:
            self._pid = 0  # there is no git here
        finally:
            os.close(sink)

    def answer(self, until: float, limit: int) -> bytes | None:
        """All it said, or a little more than ``limit``; None where it failed or took too long."""
        output = b""
        ended = not self._pid
        while not ended and len(output) <= limit:
            if not readable_of((self._source,), until - time.monotonic()):
                break
            block = os.read(self._source, 1 << 16)
            output += block
            ended = not block
        os.close(self._source)
        enough = len(output) > limit
        failed = self._end(ended)
        return None if not enough and (not ended or failed) else output

    def _end(self, by_itself: bool) -> bool:
        if not self._pid:
            return True
        if not by_itself:
            import signal

            os.kill(self._pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        return os.waitpid(self._pid, 0)[1] != 0


def _spawn(argv: tuple[str, ...], environment: dict[str, str], sink: int) -> int:
    if sys.platform == "win32":
        raise OSError("git is not used on Windows")
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, sink, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawnp(argv[0], argv, environment, file_actions=actions, setpgroup=0)


def _clean_folder(cache: str, digits: int) -> str:
    """A git folder with no objects, no hooks and only our configuration; recreated unless it is exactly that."""
    folder = os.path.join(cache, f"git-{digits}")
    expected = {"HEAD": _HEAD, "config": _CONFIG[digits]}
    if _is_clean(folder, expected):
        return folder
    beside = temporary_beside(folder)
    os.makedirs(os.path.join(beside, "refs"), 0o700)
    for name, content in expected.items():
        with open(os.path.join(beside, name), "wb") as target:
            target.write(content)
    if not _is_clean(folder, expected):
        remove_tree(os.fsencode(folder))
        try:
            os.rename(beside, folder)
        except OSError:
            pass  # another submit was first
    remove_tree(os.fsencode(beside))
    return folder


def _is_clean(folder: str, expected: dict[str, bytes]) -> bool:
    try:
        if sorted(os.listdir(folder)) != [*sorted(expected), "refs"] or os.listdir(os.path.join(folder, "refs")):
            return False
        return all(_content(os.path.join(folder, name)) == content for name, content in expected.items())
    except OSError:
        return False


def _environment(repository: Repository, folder: str) -> dict[str, str]:
    """Ours, without what belongs to git; no configuration but the one in ``folder``, and nothing that could fetch."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "HOME": folder,  # git before 2.32 does not know GIT_CONFIG_GLOBAL
        "XDG_CONFIG_HOME": folder,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_DIR": folder,
        "GIT_WORK_TREE": repository.work_tree,
        "GIT_INDEX_FILE": os.path.join(repository.folder, "index"),
        "GIT_OBJECT_DIRECTORY": os.path.join(repository.common, "objects"),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def _split(output: bytes) -> tuple[list[bytes], bytes]:
    """The paths of ``--raw -z``, relative to the work tree, and the patch behind them."""
    paths: list[bytes] = []
    at = 0
    while output.startswith(b":", at):
        begin = output.find(b"\0", at) + 1
        end = output.find(b"\0", begin)
        if not begin or end < 0:
            return paths, b""  # the list alone was too long
        paths.append(output[begin:end])
        at = end + 1
    return paths, output[at + 1 :]


def _as_arguments(paths: list[bytes]) -> list[bytes]:
    """As many of them as fit on one command line."""
    room, few = _LONGEST_ARGUMENTS, []
    for path in paths:
        room -= len(path) + 30
        if room < 0:
            break
        few.append(path)
    return few


def _content(path: str) -> bytes:
    with open(path, "rb") as source:
        return source.read(1000)
