"""Decides which files of a run may be written into a folder of the user: none that git or Holdfast would act on."""

from __future__ import annotations

import os

from holdfast.store import output_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Paths below the root, in lower case, with everything below them.
RESULTS = frozenset(("aml_config", ".azureml", ".holdfast-project"))
CODE = frozenset((".azureml/project.json", ".holdfast-project"))  # over a project: it stays the project that it is
NEW_FOLDER: frozenset[str] = frozenset()
_GIT_FOLDERS = frozenset((".git", "git~1"))
_GIT_MARKS = frozenset(("objects", "refs", "commondir"))  # beside a file HEAD, one of them makes a git repository


class Destinations:
    """Refuses files that git or Holdfast itself would act on: a target or an archive must not choose what they do.

    ``names`` are those of all files: together, and with files that are there, they may make a bare repository.
    ``reserved`` is one of the sets above. ``refused`` has the reasons by name.
    """

    def __init__(self, root: str, names: Iterable[str], reserved: frozenset[str]) -> None:
        self.refused: dict[str, str] = {}
        self._root = root
        self._reserved = reserved
        self._is_repository: dict[str, bool] = {}
        self._children: dict[str, set[str]] = {}
        for name in names:
            parts = name.split("/")
            for depth, part in enumerate(parts):
                self._children.setdefault("/".join(parts[:depth]), set()).add(part)

    def is_reserved(self, name: str) -> bool:
        parts = name.split("/")
        plain = [_as_git_reads(part) for part in parts]
        heads = {"/".join(plain[:depth]) for depth in range(1, len(plain) + 1)}
        if not self._reserved.isdisjoint(heads) or not _GIT_FOLDERS.isdisjoint(plain):
            self.refused[name] = "reserved"
            return True
        folders = ("/".join(parts[:depth]) for depth in range(len(parts)))
        repository = next((folder for folder in folders if self._makes_repository(folder)), None)
        if repository is None:
            return False
        self.refused[f"{repository}/" if repository else name] = "git would use this folder as a repository"
        return True

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
