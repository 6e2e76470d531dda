"""Imports runs from an archive. Everything is unpacked to a staging folder and checked before the first run appears."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib

from holdfast.engine.transfer import admission
from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout, object_removal, objects
from holdfast.store import archive_names as names
from holdfast.store import runs
from holdfast.store.archive_names import refused
from holdfast.store.home import Home
from holdfast.store.staging import Staging, free_id, taken_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from holdfast.model import Project

_BLOCK = 1024 * 1024


class Imported(Record):
    """Run ids that are new here, how many were here already, and the names of other projects that they belong to."""

    new: list[str]
    here: int
    elsewhere: list[str]


def take_in(home: Home, project: Project, path: str, tell: Callable[[int, int], None]) -> Imported:
    """``project`` is the one that the person is in: its runs belong to its folder."""
    try:
        with _opened(path) as source, zipfile.ZipFile(source) as archive, Staging(home) as stage:
            names.check(archive.infolist(), os.fstat(source.fileno()).st_size, path)
            _check_list(archive, path)
            with object_removal.Kept(os.fsencode(home.objects)):  # what is here already is not taken from the archive
                _unpack(home, archive, stage, path, tell)
                return _let_in(home, project, stage, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeError, RuntimeError) as error:
        raise refused(path, str(error) or type(error).__name__) from None


def _opened(path: str) -> BinaryIO:
    try:
        return open(untrusted.open_file(path), "rb")
    except IsADirectoryError:
        hint = "name the file that holdfast history export wrote; --mlflow FOLDER imports an MLflow store"
        raise UsageError("this is a folder, not an archive; nothing was imported", where=path, hint=hint) from None
    except (OSError, untrusted.Untrusted) as error:
        raise refused(path, str(error)) from None


def _check_list(archive: zipfile.ZipFile, path: str) -> None:
    """The archive says which runs it has; one that was damaged must not pass for one without runs."""
    try:
        note = json.loads(archive.read(names.NOTE))
        listed = set(note["runs"]) if note["v"] == 1 and note["kind"] == "holdfast-runs" else None
    except (KeyError, ValueError, TypeError, RecursionError):
        listed = None
    if listed is None:
        raise refused(path, f"its list of runs ({names.NOTE}) is missing or damaged")
    if listed != _uids(archive):
        raise refused(path, f"its list of runs ({names.NOTE}) does not match the runs that it has")


def _uids(archive: zipfile.ZipFile) -> set[str]:
    return {name.split("/")[1] for name in archive.namelist() if name.startswith("runs/")}


def _unpack(home: Home, archive: zipfile.ZipFile, stage: Staging, path: str, tell: Callable[[int, int], None]) -> None:
    """Unpack everything that the store does not have: a repeated import needs no disk space."""
    entries = archive.infolist()
    for done, entry in enumerate(entries):
        tell(done, len(entries))
        kind, _, rest = entry.filename.partition("/")
        if kind == "objects":
            digest = rest.replace("/", "")
            if not objects.has(os.fsencode(home.objects), digest):
                target = os.path.join(stage.path, entry.filename)
                if _pour(archive, entry, target, path) != digest:
                    raise refused(path, f"{entry.filename} does not match its checksum")
        elif kind == "runs" and not os.path.isdir(home.run(rest.partition("/")[0])):
            _pour(archive, entry, stage.run(*rest.split("/")), path)


def _pour(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: str, path: str) -> str:
    """Into a new file; returns its SHA-256. Never more bytes than the directory of the archive says."""
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    state, left = hashlib.sha256(), entry.file_size
    with (
        archive.open(entry) as source,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink,
    ):
        while block := source.read(_BLOCK):
            left -= len(block)
            if left < 0:
                raise refused(path, f"{entry.filename!a} is larger than the archive says")
            state.update(block)
            sink.write(block)
    if left:
        raise refused(path, f"{entry.filename!a} is smaller than the archive says")
    return state.hexdigest()


def _let_in(home: Home, project: Project, stage: Staging, path: str) -> Imported:
    folder = layout.runs(stage.path)
    uids = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    try:
        offers = [admission.offer(runs.read(Home(stage.path, ""), uid)) for uid in uids]
        trees = {str(offer.request["tree"]) for offer in offers if "tree" in offer.request}
        ready = [admission.new_objects(home, stage, tree) for tree in sorted(trees)]
    except admission.Refused as error:
        raise refused(path, str(error)) from None
    stage.settle()
    for digests in ready:
        admission.adopt(home, stage, digests)
    by_age = sorted(offers, key=lambda offer: int(offer.run_id.rpartition("_")[2]))
    given = taken_ids(home)
    new, elsewhere = [], set()
    for candidate in by_age:
        run_id = free_id(candidate.run_id, given)
        if stage.publish(candidate.uid, run_id, admission.request(project, candidate)) is not None:
            given.add(run_id)
            new.append(run_id)
            elsewhere |= (
                {str(candidate.request.get("project"))} if candidate.request["project_id"] != project.id else set()
            )
    return Imported(new, _count(path) - len(new), sorted(elsewhere))


def _count(path: str) -> int:
    with zipfile.ZipFile(path) as archive:
        return len(_uids(archive))
