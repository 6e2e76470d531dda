"""What git knows of a project when it is submitted: commit, branch, whether anything differs, and the difference.

The commit is read from the files in ``.git``. Whether anything differs only git can say: it is asked in a child that
begins before the project is read and is waited for no longer than a second. Where there is no git, nothing is said.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import time

from holdfast.runner import untrusted
from holdfast.runner.sync import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

LONGEST_DIFF = 1 << 20
_PATIENCE_S = 1.0
_LARGEST_REFS = 16 << 20
_HEX = frozenset("0123456789abcdef")
# Nothing that a repository configures may run, and nothing in it may be written, only because somebody submits.
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_STATUS = ("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=none", "--", ".")
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--binary", "HEAD", "--", ".")


class Begun:
    """``Begun(root)`` starts to ask; ``result()`` is what belongs into run.json; ``keep`` writes the difference."""

    def __init__(self, root: str) -> None:
        self._diff = b""
        self._folder = _git_folder(root)
        self._until = time.monotonic() + _PATIENCE_S
        asked = (_STATUS, _DIFF) if self._folder and sys.platform != "win32" else ()
        self._children = [_Child((*_GIT, "-C", root, *words)) for words in asked]

    def result(self) -> Json | None:
        """``commit``, ``branch`` (None if detached) and, if git answered in time, ``dirty`` and ``diff``."""
        if self._folder is None:
            return None
        commit, branch = _head(self._folder)
        found: Json = {"commit": commit, "branch": branch}
        limits = (1, LONGEST_DIFF)[: len(self._children)]
        answers = [child.answer(self._until, limit) for child, limit in zip(self._children, limits, strict=True)]
        if answers and answers[0] is not None:
            found["dirty"] = bool(answers[0])
        if len(answers) > 1 and answers[1]:
            self._diff = answers[1][:LONGEST_DIFF]
            digest = hashlib.sha256(self._diff).hexdigest()
            found["diff"] = {"bytes": len(self._diff), "sha256": digest, "whole": len(answers[1]) <= LONGEST_DIFF}
        return found

    def keep(self, folder: str) -> None:
        """Put the difference into the run's folder, as ``git.diff``."""
        if not self._diff:
            return
        descriptor = os.open(os.path.join(folder, "git.diff"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write_all(descriptor, self._diff)
        finally:
            os.close(descriptor)


class _Child:
    """A git whose answer is awaited later; killed when it is not wanted any more."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._source, sink = os.pipe()
        try:
            self._pid = _spawn(argv, sink)
        except OSError:
            self._pid = 0  # there is no git here
        finally:
            os.close(sink)

    def answer(self, until: float, limit: int) -> bytes | None:
        """All it said, or a little more than ``limit``; None where it failed or took too long."""
        said = b""
        ended = not self._pid
        while not ended and len(said) <= limit:
            ready = select.select([self._source], [], [], max(0.0, until - time.monotonic()))[0]
            if not ready:
                break
            block = os.read(self._source, 1 << 16)
            said += block
            ended = not block
        os.close(self._source)
        enough = len(said) > limit
        failed = self._end(ended)
        return None if not enough and (not ended or failed) else said

    def _end(self, by_itself: bool) -> bool:
        if not self._pid:
            return True
        if not by_itself:
            os.kill(self._pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        return os.waitpid(self._pid, 0)[1] != 0


def _spawn(argv: tuple[str, ...], sink: int) -> int:
    if sys.platform == "win32":
        raise OSError("not asked there")
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, sink, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    return os.posix_spawnp(argv[0], argv, _environment(), file_actions=actions, setpgroup=0)


def _environment() -> dict[str, str]:
    """Without what would point git at another repository, or make it ask somebody."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _git_folder(root: str) -> str | None:
    """The repository's own folder of the work tree that ``root`` is in; a linked work tree names it in a file."""
    folder = os.path.abspath(root)
    while True:
        found = os.path.join(folder, ".git")
        if os.path.isdir(found):
            return found if os.path.exists(os.path.join(found, "HEAD")) else None
        if os.path.isfile(found):
            named = _text(found).partition("gitdir:")[2].strip()
            return os.path.join(folder, named) if named else None
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _head(folder: str) -> tuple[str | None, str | None]:
    """The commit that is checked out, None before the first one; the branch, None where there is none."""
    head = _text(os.path.join(folder, "HEAD")).strip()
    if not head.startswith("ref:"):
        return _commit(head), None
    ref = head.partition(":")[2].strip()
    branch = ref.removeprefix("refs/heads/")
    try:
        untrusted.relative(ref)
    except untrusted.Untrusted:
        return None, None
    if not ref.startswith("refs/"):
        return None, None
    common = os.path.join(folder, _text(os.path.join(folder, "commondir")).strip())
    for place in (folder, common):
        found = _commit(_text(os.path.join(place, ref)).strip())
        if found:
            return found, branch
    return _packed(os.path.join(common, "packed-refs"), ref), branch


def _packed(path: str, ref: str) -> str | None:
    for line in _text(path, _LARGEST_REFS).splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return _commit(commit)
    return None


def _commit(text: str) -> str | None:
    return text if len(text) in (40, 64) and set(text) <= _HEX else None


def _text(path: str, limit: int = 4096) -> str:
    try:
        with open(untrusted.open_file(path), "rb") as source:
            return source.read(limit).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
