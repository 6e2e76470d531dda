"""Frees disk space in the store: expired work folders and runs, and objects that no run needs."""

from __future__ import annotations

import os

from holdfast import lifecycle
from holdfast.record import Record
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import fork_guard, layout, object_removal, objects
from holdfast.runner.store.files import is_temporary, unlink_quietly
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import runs, trash
from holdfast.store.disk_usage import size_of
from holdfast.store.staging import is_abandoned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json
    from holdfast.runner.machine.clock import Clock
    from holdfast.store.home import Home

_DAY_S = 86400.0
_YOUNG_S = 3600.0  # an object this young may belong to a submit that has not written its run yet


class Keep(Record):
    """What the settings keep, in days; ``runs`` None means for ever, ``trash`` None that all of it goes now.

    ``clock`` tells ages, or that there are none.
    """

    runs: float | None
    work: float
    trash: float | None
    clock: Clock


def prune(home: Home, records: list[Json], keep: Keep, *, act: bool) -> list[Json]:
    """Remove (or, without act, only count) what is no longer kept or needed; open runs and all they need stay."""
    purged, rows = expire(home, records, keep, act=act)
    return [*rows, _leftovers(home, keep.clock, act), _objects(home, keep.clock, purged, act)]


def expire(home: Home, records: list[Json], keep: Keep, *, act: bool) -> tuple[set[str], list[Json]]:
    """The part that follows the settings: runs, work folders and trash past their time.

    Returns the uids that left the trash for good, too.
    """
    ended = [str(record["uid"]) for record in records if record["status"] in lifecycle.FINAL]
    ages = {uid: age for uid in ended if (age := _age(home, uid, keep.clock)) is not None}
    old = {uid for uid, age in ages.items() if keep.runs is not None and age > keep.runs * _DAY_S}
    stale = [uid for uid, age in ages.items() if age > keep.work * _DAY_S and uid not in old]
    purged = set(trash.expired(home, keep.trash, keep.clock))
    return purged, [_runs(home, old, act), _trash(home, purged, act), _work(home, stale, act)]


def _age(home: Home, uid: str, clock: Clock) -> float | None:
    """Seconds since the run wrote its last event, by the file's own time; None where that makes no sense."""
    try:
        store = os.stat(layout.identity(home.path)).st_mtime
        return clock.plausible_age(os.stat(_events(home, uid)).st_mtime, earliest=store - _DAY_S)
    except FileNotFoundError:
        return None


def _events(home: Home, uid: str) -> str:
    return layout.events(layout.attempt(home.run(uid), runs.last_attempt(home.run(uid))))


def _runs(home: Home, uids: set[str], act: bool) -> Json:
    size = sum(size_of(home.run(uid)) for uid in uids)
    for uid in uids if act else ():
        trash.put(home, uid)
    return {"what": "runs, to the trash", "count": len(uids), "bytes": size}


def _trash(home: Home, uids: set[str], act: bool) -> Json:
    size = sum(trash.size(home, uid) for uid in uids)
    for uid in uids if act else ():
        trash.purge(home, uid)
    return {"what": "trash", "count": len(uids), "bytes": size}


def _work(home: Home, uids: list[str], act: bool) -> Json:
    folders = [
        path
        for path in (
            layout.removed_with_work(layout.attempt(folder, number + 1))
            for folder in map(home.run, uids)
            for number in range(runs.last_attempt(folder))
        )
        if os.path.isdir(path) and not os.path.islink(path)
    ]
    size = sum(map(size_of, folders))
    for folder in folders if act else ():
        remove_tree(_bytes(folder))
    return {"what": "work folders", "count": len(folders), "bytes": size}


def _leftovers(home: Home, clock: Clock, act: bool) -> Json:
    """Halves that killed commands left behind: deleted but not removed, or begun and never given their name."""
    halves = list(_halves(home))
    paths = [path for path in halves if path.endswith(".deleted") or clock.is_older(path, _YOUNG_S) or _is_dead(path)]
    young = [] if clock.doubt else [path for path in halves if path not in paths]
    kept = _young(list(map(size_of, young)))
    paths += _old_runners(home, clock)
    size = sum(map(size_of, paths))
    for path in paths if act else ():
        remove = remove_tree if os.path.isdir(path) else unlink_quietly
        remove(_bytes(path))
    if act:
        object_removal.sweep(_bytes(home.objects))
        _locks_of_dead_submits(home, clock)
    return {"what": "leftovers", "count": len(paths), "bytes": size, **kept}


def _halves(home: Home) -> Iterator[str]:
    from glob import escape, iglob

    for pattern in ("*", "*/*", "runs/*/*", "runner/*/code/*", "shims/*/*", "ssh/*/*"):
        yield from filter(_is_half, iglob(os.path.join(escape(home.path), pattern)))


def _is_dead(path: str) -> bool:
    return os.path.basename(path).startswith("import-") and is_abandoned(path)


def _is_half(path: str) -> bool:
    """By its ending; older versions wrote a stat cache under a name that ends in the number of its process."""
    beside = os.path.basename(path).startswith("stat-") and path.rpartition(".")[2].isdigit()
    return beside or path.endswith(".deleted") or is_temporary(path)


def _old_runners(home: Home, clock: Clock) -> list[str]:
    """Versions of the runner that no open run uses and that were installed more than a day ago."""
    folder = layout.runners(home.path)
    used = set()
    for uid in runs.uids(home):
        run = runs.read(home, uid)
        if lifecycle.state_of(run.events) not in lifecycle.FINAL:
            used |= {str(event.get("runner")) for event in run.events}
    try:
        with open(layout.runner_digest(home.path), encoding="ascii") as note:
            used.add(note.read().split("\n")[1])
    except (OSError, ValueError, IndexError):
        pass  # it is damaged: then it says nothing
    names = os.listdir(folder) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if name not in used]
    return [path for path in paths if clock.is_older(path, _DAY_S)]


def _locks_of_dead_submits(home: Home, clock: Clock) -> None:
    """Of a submit that was killed before its run was written; no other command has a reason to look at it."""
    folder = layout.locks(home.path)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        lock = home.lock(name)
        if name.startswith("submit-") and clock.is_older(path, _YOUNG_S) and lock.try_hold():
            unlink_quietly(_bytes(path))
            lock.release()


def _objects(home: Home, clock: Clock, purged: set[str], act: bool) -> Json:
    """With ``act`` no submit may be between finding an object and referring to it."""
    root = _bytes(home.objects)
    if not act or not os.path.isdir(root):
        return _unused_objects(home, clock, purged, act)
    lock = object_removal.lock_for_removal(root)
    if lock is None:
        why = "another command stores or needs objects now"
        return {"what": "objects", "count": 0, "bytes": 0, "note": f"nothing removed: {why}"}
    try:
        return _unused_objects(home, clock, purged, act)
    finally:
        fork_guard.close(lock)


def _unused_objects(home: Home, clock: Clock, purged: set[str], act: bool) -> Json:
    """Mark what runs, in the trash too, refer to; sweep the rest. What cannot be read is kept, not guessed about."""
    kept = [runs.read(home, uid) for uid in runs.uids(home)]
    kept += [trash.read(home, uid) for uid in trash.uids(home) if uid not in purged]
    problem = next((run.problem for run in kept if run.problem), "")
    trees = {str(run.request.get("tree", "")) for run in kept}
    trees.update(os.listdir(home.saved) if os.path.isdir(home.saved) else ())
    needed: set[str] = set()
    root = _bytes(home.objects)
    try:
        for tree in trees:
            object_removal.mark(root, tree, needed)
    except objects.Damaged as error:
        problem = problem or f"a snapshot cannot be read: {error}"
    if problem:
        return {"what": "objects", "count": 0, "bytes": 0, "note": f"nothing removed: {problem}"}
    unused = [path for path, digest in object_removal.stored(root) if digest not in needed]
    old = [path for path in unused if clock.is_older(path, _YOUNG_S)]
    row = {"what": "objects", "count": len(old), "bytes": sum(os.lstat(path).st_size for path in old)}
    young = sorted(set(unused) - set(old)) if not clock.doubt else []
    spared = _young([os.lstat(path).st_size for path in young])
    for path in old if act else ():
        os.unlink(path)
    return {**row, **spared}


def _young(sizes: list[int]) -> Json:
    """Number and bytes of what stays because it is younger than an hour."""
    return {"young": len(sizes), "young_bytes": sum(sizes)}


def _bytes(path: str) -> bytes:
    return as_bytes(path)
