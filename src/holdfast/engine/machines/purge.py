"""Removes everything of ours from a machine: runs, SSH key, folder and the shared connection."""

from __future__ import annotations

import os
from shlex import quote

from holdfast import answers, lifecycle, target_lookup
from holdfast.engine.connection.channel import SEARCHING, connect
from holdfast.engine.machines import cleanup
from holdfast.engine.machines.checks import machine
from holdfast.engine.runs import outputs, reconcile
from holdfast.engine.runs.run_target import target_of
from holdfast.errors import HoldfastError, UnreachableError, UsageError
from holdfast.record import Record
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import output_manifest, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run


class Purged(Record):
    """How many runs went from there; how many other clients and runs of others keep the store ``place`` there.

    ``labels`` of those clients; empty from a runner of an older version.
    """

    runs: int
    others: int
    labels: list[str]
    kept: int
    left: bool
    place: str


def purge(home: Home, compute: ComputeTarget, agree: Callable[[int, int], None]) -> Purged:
    """``agree`` may refuse: it gets number and size of the outputs that exist only there."""
    target = machine(compute, home.path)
    channel = connect(home, target, SEARCHING)
    try:
        _refuse_our_own(home, compute, channel)
        folder = str(channel.hello()["home"])
        there = cleanup.offered(home, channel)
        mine = _runs_on(home, compute, {str(run["uid"]) for run in there})
        reconcile.settle(home, [run for run in mine if lifecycle.state_of(run.events) not in lifecycle.FINAL])
        _bring_home(home, channel, [runs.read(home, run.uid) for run in mine], there, agree)
        gone = answers.table(channel.ask("purge", client=home.id), "gone", compute.name)
    except UnreachableError as error:
        hint = f"holdfast computetarget detach {quote(compute.name)} without --purge removes only the local files"
        what = f"{error.what}; nothing was removed"
        raise UnreachableError(what, where=error.where, answer=error.answer, hint=hint) from error
    finally:
        channel.close()
    purged = _understood(gone, compute, folder)
    target.host.sever()
    remove_tree(os.fsencode(target_lookup.login(compute, home.path).folder))
    return purged


def _refuse_our_own(home: Home, compute: ComputeTarget, channel: RunnerChannel) -> None:
    if channel.hello()["store"] == home.id:
        what = "the runs on this target are your local history and are not purged"
        raise UsageError(
            what, where=home.path, hint=f"holdfast computetarget detach {quote(compute.name)}, without --purge"
        )


def _runs_on(home: Home, compute: ComputeTarget, there: set[str]) -> list[Run]:
    """Runs of ours on that machine, whatever name, address or host key it had when they were started."""
    here = target_lookup.login(compute, home.path).folder
    known = (runs.read(home, uid) for uid in runs.uids(home))
    return [run for run in known if run.uid in there or _folder(home, run) == here]


def _folder(home: Home, run: Run) -> str:
    if run.problem or not run.request.get("reached_by"):
        return ""
    try:
        return target_lookup.login(target_of(run.request, home.path).compute, home.path).folder
    except HoldfastError:
        return ""  # of a kind that this version does not know


def _bring_home(
    home: Home, channel: RunnerChannel, mine: list[Run], there: list[Json], agree: Callable[[int, int], None]
) -> None:
    for run in mine:
        if output_manifest.is_missing(run):
            outputs.list_late(home, run, channel)
    unlisted = [cleanup.unlisted(run) for run in there]
    count, size = sum(files for files, _ in unlisted), sum(total for _, total in unlisted)
    for run in mine:
        outputs.bring_by_policy(home, channel, run)
        missing = [
            row for row in output_manifest.rows(run) if "sha256" in row and not output_manifest.is_here(run, row)
        ]
        count += len(missing) + len(output_manifest.refused(run)) + len(output_manifest.unread(run))
        size += sum(int(str(row["size"])) for row in missing)
    if count:
        agree(count, size)


def _understood(gone: Json, compute: ComputeTarget, folder: str) -> Purged:
    live = answers.texts(gone, "live", compute.name) if gone.get("live") is not None else []
    if live:
        what = "your runs are still active on it; nothing was removed"
        cancel = "; ".join(f"holdfast cancel -r {quote(run_id)}" for run_id in live)
        raise UsageError(what, where=compute.name, answer=", ".join(map(str, live)), hint=cancel)
    runs_gone, others = (answers.number(gone, name, compute.name) for name in ("runs", "others"))
    kept = answers.number(gone, "kept", compute.name)
    labels = answers.texts(gone, "labels", compute.name) if gone.get("labels") is not None else []
    return Purged(runs_gone, others, labels, kept, gone.get("left") is True, folder)
