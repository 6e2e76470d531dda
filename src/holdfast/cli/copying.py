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
    from collections.abc import Container

    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_SHOWN = 20
_BLOCK = 1 << 20
_RESERVED = frozenset(("aml_config", ".azureml", ".holdfast-project"))  # in lower case


class Copier:
    """``copy`` until all is done, then ``finish``, which raises if a file was left out."""

    def __init__(self) -> None:
        self.copied = 0
        self.bytes = 0
        self.problems: list[str] = []
        self._made: dict[tuple[int, int], str] = {}

    def copy(self, source: str, target: str) -> bool:
        other = self._made.get(_identity(target))
        if other is not None and other != target:
            self.problem(target, f"the file system there treats this name and {show(other)} as the same file")
            return False
        try:
            copy_whole(source, target)
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


def copy_whole(source: str, target: str) -> None:
    """The whole file under its name, or nothing; a link stays a link."""
    import shutil

    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    if os.path.islink(source):
        replace_link(target, os.readlink(source))
        return
    with open(untrusted.open_file(source, follow=False), "rb") as content, WholeFile(target, 0o666, UNSYNCED) as sink:
        shutil.copyfileobj(content, sink, _BLOCK)


def copy_results(run: Run, root: str, copier: Copier, missing: Container[str], *, overwrite: bool) -> int:
    """Copy outputs and other results to where the script wrote them, below ``root``, except those that are ``missing``.

    Returns how many files that are there and differ stayed as they were.
    """
    kept = 0
    rows = output_manifest.rows(run)
    tell_links([output_manifest.name_of(row) for row in rows if "sha256" not in row])
    for row in rows:
        if "sha256" not in row or row["path"] in missing:
            continue
        source = output_manifest.path_of(run, row)
        target = os.path.join(root, output_manifest.local_name(output_manifest.name_of(row)))
        outside = leads_out(os.path.dirname(target), root)
        if outside:
            why = f"a symbolic link leads out of the project, to {outside}; use holdfast history download -d FOLDER"
            copier.problem(target, why)
        elif not output_manifest.is_output(row) and _is_reserved(str(row["project"])):
            sys.stderr.write(f"not copied: {show(target)} (reserved; holdfast history download -d FOLDER copies it)\n")
        elif os.path.lexists(target) and not overwrite and not _same(source, target):
            sys.stderr.write(f"not overwritten: {show(target)} (differs; --overwrite replaces it)\n")
            kept += 1
        else:
            copier.copy(source, target)
    return kept


def _is_reserved(path: str) -> bool:
    """Whether git or Holdfast itself would act on it: a target must not choose what they do."""
    names = path.casefold().split("/")
    return names[0] in _RESERVED or ".git" in names


def _same(one: str, other: str) -> bool:
    import filecmp

    try:
        return os.path.isfile(other) and filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def leads_out(folder: str, root: str) -> str:
    """Where a link in the project leads that leaves it, else empty: a project from elsewhere must not choose that."""
    real, top = os.path.realpath(folder), os.path.realpath(root)
    return "" if real == top or real.startswith(top.rstrip(os.sep) + os.sep) else real


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
