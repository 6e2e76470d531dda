"""Imports runs from an archive. Everything is unpacked to a staging folder and checked before the first run appears.

A run is checked like one from another machine (``pull_runs``): every field must have its type, its files must have the
hashes of the closing event, and the address of its machine is not imported.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib

from holdfast import lifecycle
from holdfast.engine.transfer.pull_runs import understand
from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout, object_removal, objects
from holdfast.runner.store.objects import Batch
from holdfast.store import archive_names as names
from holdfast.store import history_record, request_file, runs, verify
from holdfast.store.archive_names import refused
from holdfast.store.home import Home
from holdfast.store.staging import Staging, free_id, taken_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from holdfast.engine.transfer.pull_runs import Offer
    from holdfast.model import Json, Project

_BLOCK = 1024 * 1024
_KEPT = ("git", "reproduces", "description", "environment")  # of a request, beside what strange machines may tell


_NO_CODE = "0" * 64


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
    offers = [_offer(stage, uid, path) for uid in uids]
    trees = {str(offer.request["tree"]) for offer in offers if "tree" in offer.request}
    ready = [_parts(home, stage, tree, path) for tree in sorted(trees)]
    stage.settle()
    for parts in ready:
        _adopt(home, stage, parts)
    by_age = sorted(offers, key=lambda offer: int(offer.run_id.rpartition("_")[2]))
    given = taken_ids(home)
    new, elsewhere = [], set()
    for candidate in by_age:
        run_id = free_id(candidate.run_id, given)
        if stage.publish(candidate.uid, run_id, _request(project, candidate)) is not None:
            given.add(run_id)
            new.append(run_id)
            elsewhere |= (
                {str(candidate.request.get("project"))} if candidate.request["project_id"] != project.id else set()
            )
    return Imported(new, _count(path) - len(new), sorted(elsewhere))


def _offer(stage: Staging, uid: str, path: str) -> Offer:
    """A run that makes sense, has ended, and has the files that it ended with."""
    staged = Home(stage.path, "")
    run = runs.read(staged, uid)
    attempts = [f"a{number}" for number in range(1, run.attempt_number + 1)]
    code = {} if run.request.get("tree") else {"tree": _NO_CODE}
    offer = understand({"uid": uid, "request": {**run.request, **code}, "attempts": attempts})
    if offer is None:
        raise refused(path, f"runs/{uid}/run.json is invalid {run.problem}".rstrip())
    if request_file.is_changed(run.path):
        raise refused(path, f"runs/{uid}/run.json was changed: its checksum is wrong")
    there = sorted(name for name in os.listdir(run.path) if os.path.isdir(os.path.join(run.path, name)))
    if there != sorted(attempts) or lifecycle.state_of(run.events) not in lifecycle.FINAL:
        raise refused(path, f"{offer.run_id} has not ended, or lacks an attempt")
    closed = next(event for event in run.events if event.get("type") == "closed")
    wrong = [*verify.differences(run, closed), *_wrong_outputs(run)]
    if wrong:
        raise refused(path, f"{offer.run_id}: {wrong[0]}")
    more = {name: run.request[name] for name in _KEPT if isinstance(run.request.get(name), (dict, str))}
    more |= {"target": str(run.request.get("target") or "elsewhere")[:200]}
    origin = run.request.get("origin_number")
    number = origin if isinstance(origin, int) and not isinstance(origin, bool) else offer.number
    kept = {name: value for name, value in offer.request.items() if name not in code}
    return offer._replace(request={**kept, **more}, number=number)


def _wrong_outputs(run: runs.Run) -> list[str]:
    """Only files that the manifest has; some may have stayed on their machine."""
    rows = {str(row["path"]): row for row in history_record.output_rows(run)}
    top = layout.outputs(run.attempt)
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            row = rows.get(os.path.relpath(path, top).replace(os.sep, "/"), {})
            problem = verify.compare(path, row.get("size"), row.get("sha256"))
            if problem:
                return [f"outputs/{name}: {problem}"]
    return []


def _parts(home: Home, stage: Staging, tree: str, path: str) -> list[str]:
    """The objects of a snapshot that are new here, folders behind what they hold; none where the code did not come.

    A tree is stored only when complete: its presence implies that of all its parts.
    """
    here, there = os.fsencode(home.objects), os.fsencode(layout.objects(stage.path))
    if objects.has(here, tree) or not objects.has(there, tree):
        return []
    digests: list[str] = []
    seen: set[str] = set()

    def walk(digest: str) -> None:
        seen.add(digest)
        for entry in objects.read_tree(there if objects.has(there, digest) else here, digest):
            if entry.kind != "link" and entry.digest not in seen:
                if entry.kind == "dir":
                    walk(entry.digest)
                elif not objects.has(here, entry.digest):
                    seen.add(entry.digest)
                    os.stat(objects.object_path(there, entry.digest))
                    digests.append(entry.digest)
        if not objects.has(here, digest):
            digests.append(digest)

    try:
        walk(tree)
    except (objects.Damaged, FileNotFoundError, ValueError, RecursionError) as error:
        raise refused(path, f"the code {tree[:12]} is incomplete: {error}") from None
    return digests


def _adopt(home: Home, stage: Staging, parts: list[str]) -> None:
    """What two snapshots share came with the first of them."""
    there = os.fsencode(layout.objects(stage.path))
    with Batch(os.fsencode(home.objects)) as batch:
        for digest in parts:
            source = objects.object_path(there, digest)
            if os.path.exists(source):
                batch.adopt(digest, source, os.stat(source).st_size)
        batch.commit()


def _request(project: Project, offer: Offer) -> Json:
    ours = offer.request["project_id"] == project.id
    return {
        **offer.request,
        "project_root": project.root if ours else "",
        "kind": "local",
        "home": "",
        "origin_number": offer.number,
        "imported": True,
    }


def _count(path: str) -> int:
    with zipfile.ZipFile(path) as archive:
        return len({name.split("/")[1] for name in archive.namelist() if name.startswith("runs/")})
