"""Restores the code of a run, and compares it with the project.

Over the project's own folder: what is there now is snapshotted first, so that nothing is ever lost; then files are
written beside and renamed one by one, and files that the run did not have are removed. What a snapshot leaves out
(outputs, docs, ignored files) is not touched: neither what the project ignores now, nor what the run ignored or linked.
A run may come from an archive, a shared folder or a target: nothing is written that git would act on, the project keeps
its identity, and no file is written through a link.
"""

from __future__ import annotations

import os

from holdfast.engine.runs.destinations import CODE, NEW_FOLDER, Destinations, through_link
from holdfast.errors import StoreError, UsageError
from holdfast.project import refuse_home
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes, lossless
from holdfast.runner.store import object_removal, objects
from holdfast.runner.store.files import UNSYNCED, replace_link, temporary_beside, write_whole
from holdfast.snapshot import snapshot
from holdfast.snapshot.ignore import IGNORE_FILES, StoredRules
from holdfast.store import runs
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.model import Project
    from holdfast.runner.store.objects import Entry
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

    Agree = Callable[[snapshot.Pending], None]


_BLOCK = 4096


class Restored(Record):
    """``saved`` names the state from before, if it was different; ``refused`` has the reasons by path.

    ``kept`` are files that the run has with other content and that are ignored now: no saved state has them.
    """

    saved: str
    written: int
    removed: int
    same: int
    refused: dict[str, str]
    kept: tuple[str, ...] = ()


def restore_into(home: Home, run: Run, folder: str) -> tuple[int, dict[str, str]]:
    """A new folder with the run's files; returns how many, and which were refused with the reasons."""
    from holdfast.runner.store.checkout import checkout

    if os.path.lexists(folder):
        raise UsageError("this folder already exists; nothing was restored", where=folder, hint="use a new folder")
    beside = temporary_beside(folder.rstrip(os.sep))
    paths = list(_entries(home, _tree(run)))
    allowed = Destinations(folder, map(os.fsdecode, paths), NEW_FOLDER)
    refused = tuple(path for path in paths if allowed.is_reserved(os.fsdecode(path)))
    try:
        with Named(folder):
            files, _ = checkout(_root(home), _tree(run), os.fsencode(beside), refused)
    except objects.Damaged as error:
        raise _damaged(error) from error
    os.rename(beside, folder)
    return int(files), allowed.refused


def restore_over(home: Home, run: Run, project: Project, agree: Agree) -> Restored:
    """``agree`` sees what would be stored first, and raises to leave everything as it is."""
    return _over(home, project, _tree(run), agree, _linked(run))


def bring_back(home: Home, project: Project, saved: str, agree: Agree) -> Restored:
    """A state that an earlier restore saved."""
    if len(saved) < 8 or saved.strip("0123456789abcdef"):
        raise UsageError(f"{saved!r} does not name a saved state", hint="use the name that the restore printed")
    kept = _saved_states(home)
    matching = [tree for tree in kept if tree.startswith(saved)]
    if len(matching) != 1:
        raise UsageError(f"no such saved state: {saved!r}", where=home.saved)
    return _over(home, project, matching[0], agree)


def files(home: Home, run: Run) -> dict[bytes, Entry]:
    """Every file and link of a run's code by its path."""
    return _files(home, _tree(run))


def text_lines(home: Home, run: Run, path: str) -> list[str] | None:
    """The lines of one file of a run's code; None for one that is not text or very large."""
    entry = files(home, run).get(os.fsencode(path))
    if entry is None:
        raise UsageError("this run's code has no such file", where=path)
    return _lines(home, entry)


def difference(home: Home, old: Run, new: Run | None, project: Project, agree: Agree) -> Iterator[str]:
    """A unified diff of text files, one line for others, from the first run to the second or to the project now."""
    if new is not None:
        yield from between(home, old, new)
        return
    now = _now(home, project, agree)
    yield from _difference(home, files(home, old), _files(home, now.tree))


def between(home: Home, old: Run, new: Run) -> Iterator[str]:
    """The same of two runs."""
    yield from _difference(home, files(home, old), files(home, new))


def _difference(home: Home, before: dict[bytes, Entry], after: dict[bytes, Entry]) -> Iterator[str]:
    for path in sorted({*before, *after}):
        first, other = before.get(path), after.get(path)
        if first != other:
            yield from _diff_of(home, os.fsdecode(path), first, other)


def _over(home: Home, project: Project, tree: str, agree: Agree, linked: frozenset[bytes] = frozenset()) -> Restored:
    with object_removal.Kept(_root(home)):
        return _replace(home, project, tree, _now(home, project, agree), linked)


def _replace(home: Home, project: Project, tree: str, now: snapshot.Snapshot, linked: frozenset[bytes]) -> Restored:
    wanted, present = _files(home, tree), _files(home, now.tree)
    allowed = Destinations(project.root, map(os.fsdecode, wanted), CODE)
    root = os.fsencode(project.root)
    differing = [path for path, entry in wanted.items() if present.get(path) != entry]
    changed = [path for path in differing if not allowed.is_reserved(os.fsdecode(path))]
    held = {path for path in changed if _is_occupied(root, path, present)}
    contents = {path: _content(home, wanted[path]) for path in changed}
    kept = [os.fsdecode(path) for path in sorted(held) if not _holds(root, path, wanted[path], contents[path])]
    for path in held:
        del contents[path]
    absent = _absent(home, root, wanted, present, linked)
    removed = [path for path in absent if not allowed.is_reserved(os.fsdecode(path))]
    same = len(wanted) - len(differing) + len(held) - len(kept)
    if not contents and not removed:
        return Restored("", 0, 0, same, allowed.refused, tuple(kept))
    _check_room(project.root, sum(len(content) + _BLOCK for content in contents.values()))
    _save(home, now.tree)
    for path in removed:
        os.unlink(os.path.join(root, path))
    behind_links = _write_all(project.root, wanted, contents)
    _remove_empty(root, removed)
    refused = {**allowed.refused, **behind_links}
    return Restored(now.tree[:12], len(contents) - len(behind_links), len(removed), same, refused, tuple(kept))


def _write_all(root: str, wanted: dict[bytes, Entry], contents: dict[bytes, bytes]) -> dict[str, str]:
    """Returns the files that would have been written through a link, which a snapshot left out, with the reasons."""
    linked: dict[str, str] = {}
    for path, content in contents.items():
        name = os.fsdecode(path)
        why = through_link(os.path.dirname(os.path.join(root, name)), root)
        if why:
            linked[name] = why
        else:
            _write(os.fsencode(root), path, wanted[path], content)
    return linked


def _absent(
    home: Home, root: bytes, wanted: dict[bytes, Entry], present: dict[bytes, Entry], linked: frozenset[bytes]
) -> list[bytes]:
    """Files that the run did not have. One that its rules ignored, or below a link of it, may have been there."""
    ignore_files = {
        path: _content(home, entry)
        for path, entry in wanted.items()
        if entry.kind == "file" and os.path.basename(path) in IGNORE_FILES
    }
    rules = StoredRules(root, ignore_files)
    folders = {above for path in wanted for above in _above(path)}
    removed = []
    for path in present:
        # What is in the way of the run's files must go, whatever the rules; the saved state has it.
        in_the_way = path in folders or not wanted.keys().isdisjoint(_above(path))
        is_linked = path in linked or not linked.isdisjoint(_above(path))
        if path not in wanted and (in_the_way or not (is_linked or rules.leaves_out(path))):
            removed.append(path)
    return removed


def _above(path: bytes) -> list[bytes]:
    """The folders above a path, nearest first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1)]


def _is_occupied(root: bytes, path: bytes, present: dict[bytes, Entry]) -> bool:
    """Whether something that the saved state does not have is in the place of a file, or of a folder above it."""
    for above in _above(path):
        where = os.path.join(root, above)
        if above not in present and os.path.lexists(where) and (os.path.islink(where) or not os.path.isdir(where)):
            return True
    where = os.path.join(root, path)
    if path in present or not os.path.lexists(where):
        return False
    if os.path.islink(where) or not os.path.isdir(where):
        return True
    below = (os.path.join(folder, name) for folder, _, names in os.walk(where) for name in names)
    return any(os.path.relpath(file, root) not in present for file in below)


def _holds(root: bytes, path: bytes, entry: Entry, content: bytes) -> bool:
    """Whether the file is there already with the content of the run."""
    where = os.path.join(root, path)
    try:
        if os.path.islink(where):
            return entry.kind == "link" and os.readlink(where) == content
        return entry.kind == "file" and untrusted.read_file(where, len(content), follow=False) == content
    except (OSError, ValueError):  # not readable, not a regular file, or larger
        return False


def _linked(run: Run) -> frozenset[bytes]:
    """What the run had by a link, and its snapshot therefore not."""
    plan = runs.read_plan(run) or {}
    names = [row.get(key) for kind, key in (("links", "name"), ("data", "link")) for row in runs.objects_in(plan, kind)]
    return frozenset(os.path.normpath(as_bytes(name)) for name in names if isinstance(name, str))


def _now(home: Home, project: Project, agree: Agree) -> snapshot.Snapshot:
    refuse_home(project.root)
    pending = snapshot.scan(project.root, cache=home.stat_cache(project.id))
    agree(pending)
    return pending.store(home.objects)


def _check_room(folder: str, needed: int) -> None:
    """Check the disk space first, so that no project is restored partially."""
    if not hasattr(os, "statvfs"):
        return
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if free < needed:
        answer = f"{needed} bytes are needed, {free} are free"
        raise StoreError("not enough disk space for these files; nothing was changed", where=folder, answer=answer)


def _files(home: Home, tree: str) -> dict[bytes, Entry]:
    """Every file and link of a tree by its path."""
    return {path: entry for path, entry in _entries(home, tree).items() if entry.kind != "dir"}


def _entries(home: Home, tree: str, below: bytes = b"") -> dict[bytes, Entry]:
    """Every file, link and folder of a tree by its path."""
    result: dict[bytes, Entry] = {}
    try:
        entries = objects.read_tree(_root(home), tree, below)
    except objects.Damaged as error:
        raise _damaged(error) from error
    for entry in entries:
        path = os.path.join(below, entry.name)
        result[path] = entry
        if entry.kind == "dir":
            result.update(_entries(home, entry.digest, path))
    return result


def _content(home: Home, entry: Entry) -> bytes:
    """Read (and so verified) before anything in the project is touched."""
    if entry.kind == "link":
        return bytes(entry.target)
    try:
        return objects.read(_root(home), entry.digest)
    except objects.Damaged as error:
        raise _damaged(error) from error


def _write(root: bytes, path: bytes, entry: Entry, content: bytes) -> None:
    target = os.path.join(root, path)
    _make_room(root, path)
    if entry.kind == "link":
        replace_link(target, content)
    else:
        write_whole(target, content, 0o777 if entry.executable else 0o666, UNSYNCED)


def _make_room(root: bytes, path: bytes) -> None:
    """Make the folders above a file; a file in the way was in the snapshot and has been removed already."""
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    target = os.path.join(root, path)
    if os.path.isdir(target) and not os.path.islink(target):
        try:
            os.rmdir(target)
        except OSError as error:
            where = os.fsdecode(target)
            raise UsageError("a folder with other files is in the place of a file", where=where) from error


def _remove_empty(root: bytes, removed: list[bytes]) -> None:
    for path in removed:
        folder = os.path.dirname(path)
        while folder:
            try:
                os.rmdir(os.path.join(root, folder))
            except OSError:
                break
            folder = os.path.dirname(folder)


def _diff_of(home: Home, path: str, first: Entry | None, other: Entry | None) -> Iterator[str]:
    import difflib

    texts = [_lines(home, entry) for entry in (first, other)]
    if None in texts:
        yield f"binary {path}: {_size(first)} -> {_size(other)}"
        return
    names = [f"{side}/{path}" if entry else "/dev/null" for side, entry in (("a", first), ("b", other))]
    before, after = texts
    changed = list(difflib.unified_diff(before or [], after or [], names[0], names[1], lineterm=""))
    yield from changed or [
        f"mode {path}: executable {bool(first and first.executable)} -> {bool(other and other.executable)}"
    ]


def _lines(home: Home, entry: Entry | None) -> list[str] | None:
    """The lines of a text file; None for one that is not text or too large to compare line by line."""
    if entry is None:
        return []
    if entry.kind == "file" and entry.size > 4_000_000:
        return None
    content = _content(home, entry)
    if b"\0" in content[:8000]:
        return None
    return lossless(content).splitlines()


def _size(entry: Entry | None) -> str:
    return "absent" if entry is None else f"{entry.size} bytes"


def _save(home: Home, tree: str) -> None:
    """Remember a state, so that prune keeps it and it can be named."""
    import time

    os.makedirs(home.saved, 0o700, exist_ok=True)
    write_whole(os.path.join(home.saved, tree), f"{time.time_ns()}\n".encode())


def _saved_states(home: Home) -> list[str]:
    return [name for name in os.listdir(home.saved) if len(name) == 64] if os.path.isdir(home.saved) else []


def _tree(run: Run) -> str:
    tree = run.request.get("tree")
    if not isinstance(tree, str):
        raise StoreError("this run has no recorded code", where=run.path, answer=run.problem)
    return tree


def _root(home: Home) -> bytes:
    return os.fsencode(home.objects)


def _damaged(error: objects.Damaged) -> StoreError:
    hint = "holdfast store verify lists all damage"
    return StoreError("a stored file is damaged; nothing was changed", where=str(error), hint=hint)
