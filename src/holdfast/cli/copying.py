"""Copies files of a run to a folder of the user: each file completely or not at all; one failure skips one file."""

from __future__ import annotations

import os
import sys

from holdfast.errors import StoreError
from holdfast.present.terminal import show
from holdfast.runner import untrusted
from holdfast.runner.store.files import UNSYNCED, WholeFile, replace_link
from holdfast.store import output_manifest
from holdfast.store.index.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_SHOWN = 20
_BLOCK = 1 << 20
_RESERVED = frozenset(("aml_config", ".azureml", ".holdfast-project"))  # in lower case, as are these:
_GIT_FOLDERS = frozenset((".git", "git~1"))
_GIT_MARKS = frozenset(("objects", "refs", "commondir"))  # beside a file HEAD, one of them makes a git repository


class Copier:
    """``copy`` until all is done, then ``finish``, which raises if a file was left out."""

    def __init__(self) -> None:
        self.copied = 0
        self.bytes = 0
        self.problems: list[str] = []
        self._made: dict[tuple[int, int], str] = {}

    def copy(self, source: str, target: str, sha256: str = "") -> bool:
        """With ``sha256`` only a regular file of that content is copied."""
        other = self._made.get(_identity(target))
        if other is not None and other != target:
            self.problem(target, f"the file system there treats this name and {show(other)} as the same file")
            return False
        try:
            copy_whole(source, target, sha256)
            self.bytes += os.lstat(target).st_size
        except (OSError, ValueError) as error:
            self.problem(target, (error.strerror if isinstance(error, OSError) else None) or str(error))
            return False
        self._made[_identity(target)] = target
        self.copied += 1
        return True

    def problem(self, name: str, why: str) -> None:
        self.problems.append(f"{name}: {why}")

    def finish(self, what: str, hint: str) -> None:
        if not self.problems:
            return
        more = len(self.problems) - _SHOWN
        shown = self.problems[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        count = f"{len(self.problems)} {what}{'' if len(self.problems) == 1 else 's'}"
        done = f"; {self.copied} {'was' if self.copied == 1 else 'were'}"
        raise StoreError(f"{count} could not be copied{done}", answer="\n".join(shown), hint=hint)


def copy_whole(source: str, target: str, sha256: str = "") -> None:
    """The whole file under its name, or nothing; a link stays a link. ValueError if it has not that hash."""
    import hashlib

    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    if os.path.islink(source) and not sha256:
        replace_link(target, os.readlink(source))
        return
    state = hashlib.sha256()
    with open(untrusted.open_file(source, follow=False), "rb") as content, WholeFile(target, 0o666, UNSYNCED) as sink:
        while block := content.read(_BLOCK):
            sink.write(block)
            state.update(block)
        if sha256 and state.hexdigest() != sha256:
            raise ValueError("the stored file differs from the one the run wrote; holdfast store verify shows more")


def copy_results(run: Run, root: str, copier: Copier, missing: Container[str], *, overwrite: bool | None) -> int:
    """Copy outputs and other results to where the script wrote them, below ``root``, except those that are ``missing``.

    Returns how many files that are there and differ stayed as they were. ``overwrite`` is None for a command without
    this option.
    """
    kept = 0
    download = f"holdfast history download -r {run.request.get('run_id')} -d FOLDER copies it"
    rows = output_manifest.rows(run)
    tell_links([output_manifest.name_of(row) for row in rows if "sha256" not in row])
    files = [row for row in rows if "sha256" in row]
    allowed = _Destinations(root, map(output_manifest.name_of, files))
    for row in files:
        if row["path"] in missing:
            continue
        name = output_manifest.name_of(row)
        source, target = output_manifest.path_of(run, row), os.path.join(root, output_manifest.local_name(name))
        link = through_link(os.path.dirname(target), root)
        if link:
            copier.problem(target, f"{link}; use holdfast history download -d FOLDER")
        elif allowed.is_reserved(name):
            continue
        elif os.path.lexists(target) and not overwrite and not _same(source, target):
            answer = download if overwrite is None else "--overwrite replaces it"
            sys.stderr.write(f"not overwritten: {show(target)} (differs; {show(answer)})\n")
            kept += 1
        else:
            copier.copy(source, target, str(row["sha256"]))
    allowed.tell_refused(download)
    return kept


class _Destinations:
    """Refuses results that git or Holdfast itself would act on: a target must not choose what they do.

    ``names`` are those of all results: together, and with files that are there, they may make a bare repository.
    """

    def __init__(self, root: str, names: Iterable[str]) -> None:
        self._root = root
        self._refused: dict[str, str] = {}
        self._is_repository: dict[str, bool] = {}
        self._children: dict[str, set[str]] = {}
        for name in names:
            parts = name.split("/")
            for depth, part in enumerate(parts):
                self._children.setdefault("/".join(parts[:depth]), set()).add(part)

    def is_reserved(self, name: str) -> bool:
        parts = name.split("/")
        plain = [_as_git_reads(part) for part in parts]
        if plain[0] in _RESERVED or not _GIT_FOLDERS.isdisjoint(plain):
            self._refused[name] = "reserved"
            return True
        folders = ("/".join(parts[:depth]) for depth in range(len(parts)))
        repository = next((folder for folder in folders if self._makes_repository(folder)), None)
        if repository is None:
            return False
        self._refused[f"{repository}/" if repository else name] = "git would use this folder as a repository"
        return True

    def tell_refused(self, hint: str) -> None:
        for name, why in self._refused.items():
            target = show(os.path.join(self._root, output_manifest.local_name(name)))
            sys.stderr.write(f"not copied: {target} ({why}; {show(hint)})\n")

    def _makes_repository(self, folder: str) -> bool:
        if folder not in self._is_repository:
            there = _entries(os.path.join(self._root, output_manifest.local_name(folder)))
            plain = set(map(_as_git_reads, there | self._children.get(folder, set())))
            self._is_repository[folder] = "head" in plain and not _GIT_MARKS.isdisjoint(plain)
        return self._is_repository[folder]


def _as_git_reads(name: str) -> str:
    """A file name without what some file systems ignore: case, invisible characters, dots and spaces at the end."""
    return "".join(filter(str.isprintable, name)).casefold().partition(":")[0].rstrip(". ")


def _entries(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except (OSError, ValueError):
        return set()


def _same(one: str, other: str) -> bool:
    import filecmp

    try:
        return os.path.isfile(other) and filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def through_link(folder: str, root: str) -> str:
    """Says which symbolic link a folder of the project passes through, else empty: no result is written through one."""
    real, top = os.path.realpath(folder), os.path.realpath(root)
    if real != top and not real.startswith(top.rstrip(os.sep) + os.sep):
        return f"a symbolic link leads out of the project, to {real}"
    while len(folder) > len(root):
        if os.path.islink(folder):
            return f"{folder} is a symbolic link, to {real}"
        folder = os.path.dirname(folder)
    return ""


def refresh(home: Home, run: Run) -> None:
    """What of a run is here has changed: lists show it from the next command on."""
    index = Index(home)
    try:
        index.refresh([run.uid])
    finally:
        index.close()


def tell_links(names: list[str]) -> None:
    for name in names:
        sys.stderr.write(f"not copied: {show(name)} (a link)\n")


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return (-1, -1)
    return status.st_dev, status.st_ino
