"""Outputs of a run that lives in another store: fetched by policy at its end, or when a command needs them.

The manifest decides names, sizes and hashes. A file has its name here only once it is whole and has the promised hash;
until then it lies in the attempt's ``arriving/`` under its hash, where a later command goes on with it. A file that
cannot be fetched costs that file alone: it is returned with the reason, and noted in client.jsonl.
"""

from __future__ import annotations

import errno
import hashlib
import os
from _thread import get_ident

from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.runs.follow import bring_up_to_date
from holdfast.engine.runs.run_target import store_of, target_of
from holdfast.errors import ResourceError, RunnerError, StoreError
from holdfast.runner.store import layout
from holdfast.runner.store.files import unlink_quietly
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import output_manifest, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run

    Problems = dict[str, str]

SMALL = 16 * 1024 * 1024
_BLOCK = 1024 * 1024


class _CannotFetch(Exception):
    """This file cannot be fetched, and why; ``again`` if a second try from its first byte may succeed."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        super().__init__(why)
        self.again = again


def bring_by_policy(home: Home, channel: RunnerChannel, run: Run) -> Problems:
    """``small`` (the default) fetches files up to 16 MiB, ``all`` everything, ``none`` nothing."""
    policy = run.request.get("fetch_outputs") or "small"
    if policy == "none" or channel.hello()["store"] == home.id:
        return {}
    rows = [row for row in output_manifest.rows(run) if policy == "all" or int(str(row["size"])) <= SMALL]
    problems = {**output_manifest.refused(run), **_fetch_all(home, channel, run, rows)}
    _note(home, run, problems)
    return problems


def bring(home: Home, run: Run, names: list[str] | None = None) -> Problems:
    """Fetch these outputs (all of them without names), if they are not here; what could not be fetched, and why."""
    if output_manifest.is_missing(run):
        list_late(home, run)
    wanted = None if names is None else set(names)
    refused = output_manifest.refused(run)
    rows = [row for row in output_manifest.rows(run) if wanted is None or row["path"] in wanted]
    problems = {name: why for name, why in refused.items() if wanted is None or name in wanted}
    # A link is never fetched: that it stayed on another machine is no reason to ask there.
    own = store_of(run.request, home.path) == home.path
    if not all(output_manifest.is_here(run, row) for row in rows if own or "sha256" in row):
        channel = connect(home, target_of(run.request, home.path), ASKING)
        try:
            if channel.hello()["store"] == home.id:
                gone = [row for row in rows if not os.path.lexists(output_manifest.path_of(run, row))]
                return {**problems, **{str(row["path"]): "it is no longer in the store" for row in gone}}
            problems.update(_fetch_all(home, channel, run, rows))
        finally:
            channel.close()
    covered = {str(row["path"]) for row in rows} | set(problems)
    _note(
        home,
        run,
        {**{name: why for name, why in output_manifest.not_brought(run).items() if name not in covered}, **problems},
    )
    return problems


def list_late(home: Home, run: Run, channel: RunnerChannel | None = None) -> None:
    """Have the target write the manifest that did not fit on its full disk when the script ended, and fetch it."""
    opened = connect(home, target_of(run.request, home.path), ASKING) if channel is None else channel
    try:
        bring_up_to_date(home, opened, run)
    finally:
        if channel is None:
            opened.close()


def _fetch_all(home: Home, channel: RunnerChannel, run: Run, rows: list[Json]) -> Problems:
    problems: Problems = {}
    taken: dict[str, str] = {}  # names that a file system may not tell apart, and the first output of each
    lock = home.lock(f"outputs-{run.uid}")
    alone = lock.try_hold()
    try:
        for row in rows:
            name = str(row["path"])
            first = taken.setdefault(_folded(name), name)
            try:
                if first != name and _is_one_file(run, first, name):
                    raise _CannotFetch(f"this file system treats this name and {first!a} as the same file")
                if "sha256" in row and not output_manifest.is_here(run, row):
                    _fetch_one(channel, run, row, "" if alone else f"-{os.getpid()}-{get_ident()}")
            except (_CannotFetch, OSError, ValueError) as error:
                problems[name] = _message(error)
        if alone and not problems:
            remove_tree(os.fsencode(_arriving(run)))
    finally:
        if alone:
            unlink_quietly(home.lock_file(f"outputs-{run.uid}"))
            lock.release()
    return problems


def _fetch_one(channel: RunnerChannel, run: Run, row: Json, private: str) -> None:
    """``private`` is added to the name of the incomplete file while another command fetches for the same run."""
    part = os.path.join(_arriving(run), f"{row['sha256']}{private}")
    try:
        try:
            _receive(channel, run, row, part)
        except _CannotFetch as error:
            unlink_quietly(os.fsencode(part))
            if not error.again:
                raise
            _receive(channel, run, row, part)  # what an earlier try left may have been damaged
        target = output_manifest.path_of(run, row)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        os.replace(part, target)
    except (_CannotFetch, OSError):
        unlink_quietly(os.fsencode(part))  # free the space on a full disk
        if not output_manifest.is_here(run, row):  # another command may have been faster
            raise


def _receive(channel: RunnerChannel, run: Run, row: Json, part: str) -> None:
    """The whole file, from where an earlier try stopped; a broken connection leaves what has come."""
    os.makedirs(os.path.dirname(part), 0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(part, flags, 0o600), "r+b") as target:
        state = hashlib.sha256()
        while block := target.read(_BLOCK):
            state.update(block)
        size = int(str(row["size"]))
        _refuse_without_room(part, size - target.tell())
        _append(channel, run, row, target, state)
        target.flush()
        os.fsync(target.fileno())
        if target.tell() != size or state.hexdigest() != row["sha256"]:
            why = "the file on the target differs from the one the run wrote, or it was damaged in transfer"
            raise _CannotFetch(why, again=True)


def _append(channel: RunnerChannel, run: Run, row: Json, target: BinaryIO, state: hashlib._Hash) -> None:
    size = int(str(row["size"]))
    parameters = {
        "uid": run.uid,
        "attempt": run.attempt_name,
        "path": row["path"],
        "offset": target.tell(),
        "size": size,
    }
    answers = channel.stream("fetch", **parameters)
    try:
        for header, payload in answers:
            if header.get("end"):
                return
            if not payload or header.get("offset") != target.tell():
                raise _CannotFetch("the target sent something other than this file")
            if target.tell() + len(payload) > size:
                raise _CannotFetch(f"the file on the target is longer than the {size} bytes that the run wrote")
            target.write(payload)
            state.update(payload)
    except (StoreError, ResourceError, RunnerError) as error:
        raise _CannotFetch(f"the target could not read it: {error.answer or error.what}") from error


def _refuse_without_room(path: str, needed: int) -> None:
    if not hasattr(os, "statvfs"):
        return
    status = os.statvfs(os.path.dirname(path))
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise _CannotFetch(f"{os.strerror(errno.ENOSPC)} ({needed} bytes are needed, {free} are free)")


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    from unicodedata import normalize

    return normalize("NFC", normalize("NFC", name).casefold())


def _is_one_file(run: Run, first: str, other: str) -> bool:
    try:
        return os.path.samestat(
            *(os.lstat(output_manifest.path_of(run, {"path": name})) for name in (first, other)),
        )
    except (OSError, ValueError):
        return False


def _message(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _note(home: Home, run: Run, problems: Problems) -> None:
    """Remember what is missing here; a line is written only when that has changed."""
    noted = dict(sorted(problems.items())[: output_manifest.MOST_NOTED])
    if noted == output_manifest.not_brought(run):
        return
    try:
        runs.mention_client(home, run.uid, output_manifest.NOTE, problems=noted, count=len(problems))
    except OSError:
        return  # a full disk; the command that was asked says it itself


def _arriving(run: Run) -> str:
    return layout.arriving(run.attempt)
