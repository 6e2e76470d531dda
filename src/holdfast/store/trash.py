"""Deleted runs, kept for a while: ``trash/<uid>`` in the store. The time of such a folder is when it was deleted."""

from __future__ import annotations

import os

from holdfast.errors import UsageError
from holdfast.runner.store.files import fsync_path
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import history_record, runs
from holdfast.store.disk_usage import size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.runner.machine.clock import Clock
    from holdfast.store.home import Home

_DAY_S = 86400.0


def put(home: Home, uid: str) -> None:
    """Out of the history by one rename."""
    if not runs.is_uid(uid):
        raise UsageError(f"not a run: {uid!r}")
    os.makedirs(home.trash, 0o700, exist_ok=True)
    os.utime(home.run(uid))
    os.rename(home.run(uid), _place(home, uid))
    fsync_path(home.trash)
    fsync_path(home.runs)


def uids(home: Home) -> list[str]:
    try:
        return sorted(name for name in os.listdir(home.trash) if runs.is_uid(name))
    except FileNotFoundError:
        return []


def rows(home: Home, project_id: str | None = None) -> list[Json]:
    """What is there (of a project), newest first."""
    result = []
    for uid in uids(home):
        request = read(home, uid).request
        if project_id is None or request.get("project_id") == project_id:
            deleted = os.stat(_place(home, uid)).st_mtime_ns
            identity = {name: request.get(name) for name in ("run_number", "run_id")}
            result.append({**identity, "uid": uid, "deleted_utc": history_record.utc(deleted), "deleted_ns": deleted})
    result.sort(key=lambda row: int(str(row.pop("deleted_ns"))), reverse=True)
    return result


def read(home: Home, uid: str) -> runs.Run:
    """A deleted run, as its files tell it."""
    return runs.read_folder(_place(home, uid), uid)


def find(home: Home, project_id: str, named: str) -> str:
    """The uid of a deleted run by its number in the project, its id, or the beginning of its uid."""
    matches = [
        str(row["uid"])
        for row in rows(home)
        if named in (row["run_id"], row["uid"]) or (len(named) > 5 and str(row["uid"]).startswith(named))
    ]
    matches = matches or [str(row["uid"]) for row in rows(home, project_id) if str(row["run_number"]) == named]
    if len(matches) == 1:
        return matches[0]
    hint = "one of: " + ", ".join(matches) if matches else "holdfast history undelete shows what is in the trash"
    raise UsageError(f"{len(matches) or 'no'} deleted runs match {named!r}", where=home.trash, hint=hint)


def restore(home: Home, uid: str) -> None:
    """Back into the history."""
    os.makedirs(home.runs, 0o700, exist_ok=True)
    if os.path.lexists(home.run(uid)):
        raise UsageError("a run with this uid already exists", where=home.run(uid), hint="delete that one first")
    os.rename(_place(home, uid), home.run(uid))
    fsync_path(home.runs)
    fsync_path(home.trash)


def expired(home: Home, keep_days: float | None, clock: Clock) -> list[str]:
    """Deleted runs whose time is over; with None all of them."""
    if keep_days is None:
        return uids(home)
    return [uid for uid in uids(home) if clock.is_older(_place(home, uid), keep_days * _DAY_S)]


def purge(home: Home, uid: str) -> None:
    """For good: first the name, then the rest, which prune sweeps up after a kill."""
    gone = f"{_place(home, uid)}.deleted"
    os.rename(_place(home, uid), gone)
    remove_tree(os.fsencode(gone))


def size(home: Home, uid: str) -> int:
    return size_of(_place(home, uid))


def _place(home: Home, uid: str) -> str:
    return os.path.join(home.trash, uid)
