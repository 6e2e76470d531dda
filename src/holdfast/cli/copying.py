"""Copies files of a run to a folder of the user: each file completely or not at all; one failure skips one file."""

from __future__ import annotations

import os
import sys

from holdfast.engine.runs.destinations import RESULTS, Destinations, through_link
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


class Copier:
    """``copy`` until all is done, then ``finish``, which raises if a file was left out."""

    def __init__(self) -> None:
        self.copied = 0
        self.bytes = 0
        self.problems: list[str] = []
        self._made: dict[tuple[int, int], str] = {}

    def copy(self, source: str, target: str, sha256: str = "", execute: int = 0) -> bool:
        """With ``sha256`` only a regular file of that content is copied. ``execute``: bits of its mode."""
        other = self._made.get(_identity(target))
        if other is not None and other != target:
            self.problem(target, f"the file system there treats this name and {show(other)} as the same file")
            return False
        try:
            copy_whole(source, target, sha256, execute)
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


def copy_whole(source: str, target: str, sha256: str = "", execute: int = 0) -> None:
    """The whole file under its name, or nothing; a link stays a link. ValueError if it has not that hash."""
    import hashlib

    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    if os.path.islink(source) and not sha256:
        replace_link(target, os.readlink(source))
        return
    state = hashlib.sha256()
    mode = 0o666 | execute  # the umask is taken off
    with open(untrusted.open_file(source, follow=False), "rb") as content, WholeFile(target, mode, UNSYNCED) as sink:
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
    from shlex import quote

    kept = 0
    download = f"holdfast history download -r {quote(str(run.request.get('run_id')))} -d FOLDER copies it"
    rows = output_manifest.rows(run)
    tell_links([output_manifest.name_of(row) for row in rows if "sha256" not in row])
    files = [row for row in rows if "sha256" in row]
    allowed = Destinations(root, map(output_manifest.name_of, files), RESULTS)
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
            copier.copy(source, target, str(row["sha256"]), output_manifest.execute_bits(row))
    for name, why in allowed.refused.items():
        refused = show(os.path.join(root, output_manifest.local_name(name)))
        sys.stderr.write(f"not copied: {refused} ({why}; {show(download.replace(' -d', ' -a NAME -d'))})\n")
    return kept


def _same(path: str, other: str) -> bool:
    import filecmp

    try:
        return os.path.isfile(other) and filecmp.cmp(path, other, shallow=False)
    except OSError:
        return False


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
