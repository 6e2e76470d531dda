"""Exports runs into one plain zip: their folders, and the objects of their snapshots. Its names: ``archive_names``."""

from __future__ import annotations

import json
import os
import stat
import zipfile

from holdfast import _version
from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner.store import layout, objects
from holdfast.runner.store.files import UNSYNCED, WholeFile
from holdfast.store.archive_names import FOLDERS, NOTE, OF_A_RUN, OF_AN_ATTEMPT, clashes, name_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.home import Home
    from holdfast.store.runs import Run

_BLOCK = 1024 * 1024
_LARGE = 1 << 31


class Exported(Record):
    """``left_out`` tells of files that cannot be in an archive, and of code that is not here."""

    files: int
    bytes: int
    left_out: list[str]


def export(home: Home, chosen: list[Run], path: str, tell: Callable[[int, int], None]) -> Exported:
    """Write the archive to a temporary file and rename it when complete; ``tell`` is called with the progress."""
    if os.path.lexists(path):
        raise UsageError("this file already exists; nothing was written", where=path, hint="use --to for another file")
    left_out: list[str] = []
    files = dict(_files(home, chosen, left_out))
    _leave_out_clashes(files, chosen, left_out)
    note = {"v": 1, "kind": "holdfast-runs", "holdfast": _version.__version__, "runs": [run.uid for run in chosen]}
    size = 0
    with WholeFile(path, 0o666, UNSYNCED) as target, zipfile.ZipFile(target, "w") as archive:
        archive.writestr(zipfile.ZipInfo(NOTE), json.dumps(note, indent=1) + "\n")
        for done, (name, source) in enumerate(files.items()):
            tell(done, len(files))
            size += _add(archive, name, source)
    return Exported(len(files), size, left_out)


def _files(home: Home, chosen: list[Run], left_out: list[str]) -> Iterator[tuple[str, str]]:
    """Names in the archive, and the file behind each."""
    for run in chosen:
        for inner in file_names(run):
            name, path = f"runs/{run.uid}/{inner}", os.path.join(run.path, *inner.split("/"))
            if not is_plain(path):
                continue
            problem = name_problem(name)
            if problem:
                left_out.append(f"{run.request.get('run_id')}: {inner!a}: {problem}")
            else:
                yield name, path
        yield from _objects(home, run, left_out)


def _leave_out_clashes(files: dict[str, str], chosen: list[Run], left_out: list[str]) -> None:
    """An archive can be unpacked on every file system; some treat names that differ in case only as one."""
    run_ids = {run.uid: run.request.get("run_id") for run in chosen}
    for name, problem in list(clashes(files)):
        uid = name.split("/")[1]
        why = problem.replace(f"runs/{uid}/", "")
        from shlex import quote

        again = f"holdfast history download -r {quote(str(run_ids[uid]))} -d FOLDER copies it"
        left_out.append(f"{run_ids[uid]}: {why} on some file systems; the second is left out ({again})")
        del files[name]


def file_names(run: Run) -> Iterator[str]:
    """The files that a run may have, and those of its folders; not all of them need be there, or be plain files."""
    yield from OF_A_RUN
    for number in range(1, run.attempt_number + 1):
        yield from (f"a{number}/{name}" for name in OF_AN_ATTEMPT)
        for folder in (*FOLDERS, "outputs"):
            top = os.path.join(layout.attempt(run.path, number), folder)
            for directory, _, names in os.walk(top):
                below = os.path.relpath(directory, top).replace(os.sep, "/")
                for name in sorted(names):
                    yield f"a{number}/{folder}/{name}" if below == "." else f"a{number}/{folder}/{below}/{name}"


def is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _objects(home: Home, run: Run, left_out: list[str]) -> Iterator[tuple[str, str]]:
    tree, root = run.request.get("tree"), os.fsencode(home.objects)
    if not isinstance(tree, str) or not tree:
        return
    try:
        digests = sorted(needed(root, tree))
    except (objects.Damaged, ValueError) as error:
        left_out.append(f"{run.request.get('run_id')}: its code, which is incomplete here ({error})")
        return
    yield from (
        (f"objects/{digest[:2]}/{digest[2:]}", os.fsdecode(objects.object_path(root, digest))) for digest in digests
    )


def needed(root: bytes, tree: str) -> set[str]:
    """All objects of a snapshot; Damaged where one is not there."""
    absent = objects.missing(root, tree)
    if absent:
        raise objects.Damaged(absent[0], "missing")
    digests, waiting = {tree}, [tree]
    while waiting:
        for entry in objects.read_tree(root, waiting.pop()):
            if entry.kind != "link" and entry.digest not in digests:
                digests.add(entry.digest)
                waiting += [entry.digest] if entry.kind == "dir" else []
    return digests


def _add(archive: zipfile.ZipFile, name: str, path: str) -> int:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o600) << 16
    size = 0
    with open(path, "rb") as source:
        large = os.fstat(source.fileno()).st_size >= _LARGE
        with archive.open(entry, "w", force_zip64=large) as target:
            while block := source.read(_BLOCK):
                size += target.write(block)
    return size
