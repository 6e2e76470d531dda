"""Outputs of a run that lives in another store: brought home by policy at its end, or when somebody asks for them.

What the target says is data: the manifest decides names, sizes and hashes; a name that could lead out of the run's
folder is refused, and a file is there under its name only once it is whole and has the promised hash.
"""

from __future__ import annotations

import hashlib
import os

from holdfast.engine.channel import connect
from holdfast.engine.known import target_of
from holdfast.errors import UnreachableError
from holdfast.runner import untrusted
from holdfast.store import history
from holdfast.store.home import Named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

SMALL = 16 * 1024 * 1024


def bring_by_policy(home: Home, channel: RunnerChannel, run: Run) -> None:
    """``small`` (the default) brings files up to 16 MiB, ``all`` everything, ``none`` nothing."""
    policy = run.request.get("fetch_outputs") or "small"
    rows = [] if policy == "none" else history.output_rows(run)
    _bring(home, channel, run, [row for row in rows if policy == "all" or _size(row) <= SMALL])


def bring(home: Home, run: Run, names: list[str] | None = None) -> None:
    """Make sure that these outputs (all of them without names) are here; a connection is made only if one is not."""
    rows = [row for row in history.output_rows(run) if names is None or row["path"] in names]
    if all(os.path.lexists(_place(run, str(row["path"]))) for row in rows):
        return
    channel = connect(home, target_of(run.request, home.path))
    try:
        _bring(home, channel, run, rows)
    finally:
        channel.close()


def _bring(home: Home, channel: RunnerChannel, run: Run, rows: list[Json]) -> None:
    if channel.hello()["store"] == home.id:
        return
    for row in rows:
        place = _place(run, str(row["path"]))
        if "sha256" in row and not os.path.lexists(place):
            _bring_one(channel, run, row, place)


def _bring_one(channel: RunnerChannel, run: Run, row: Json, place: str) -> None:
    """Goes on where an earlier try stopped; the hash of the whole decides."""
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    beside = f"{place}.part"
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with Named(place), open(os.open(beside, flags, 0o600), "r+b") as target:
        state = hashlib.sha256()
        while block := target.read(1024 * 1024):
            state.update(block)
        for header, payload in channel.stream(
            "fetch", uid=run.uid, attempt=run.attempt_name, path=row["path"], offset=target.tell()
        ):
            if payload and header.get("offset") == target.tell() and target.tell() + len(payload) <= _size(row):
                target.write(payload)
                state.update(payload)
        target.flush()
        os.fsync(target.fileno())
    if state.hexdigest() != row["sha256"]:
        os.unlink(beside)
        raise UnreachableError("an output arrived damaged", where=str(row["path"]), hint="try again")
    os.replace(beside, place)


def _place(run: Run, path: str) -> str:
    try:
        return untrusted.below(os.path.join(run.attempt, "outputs"), path)
    except untrusted.Untrusted as error:
        raise UnreachableError("the target named an output that no folder can hold", answer=str(error)) from None


def _size(row: Json) -> int:
    size = row.get("size")
    return size if isinstance(size, int) else 0
