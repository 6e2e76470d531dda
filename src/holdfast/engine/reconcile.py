"""Finding out what became of runs since they were last seen. Called by every command that shows or changes runs.

Nothing here starts a script: a lost run is started again by the submit that still waits for it, or by ``retry``.
"""

from __future__ import annotations

import os
import time

from holdfast.engine.channel import connect
from holdfast.engine.follow import Follower
from holdfast.engine.known import target_of
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.runner import untrusted
from holdfast.runner.sync import unlink_quietly
from holdfast.store import ingest, runs
from holdfast.store.index import Index
from holdfast.store.locks import is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.channel import RunnerChannel
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.targets import Target


def open_index(home: Home, tell: Callable[[str], None] | None = None) -> Index:
    """The index, with every run that was open looked up on its target first; ``tell`` hears of silent targets."""
    index = Index(home)
    waiting = index.open_runs()
    if waiting:
        settle(home, [runs.read(home, uid) for uid in waiting], tell)
        index.refresh(waiting)
    return index


def settle(home: Home, found: list[Run], tell: Callable[[str], None] | None = None) -> None:
    """Bring open runs up to date, target by target. A silent target, or a disk that refuses, changes nothing."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in found:
        if not run.problem and not _is_being_submitted(home, run.uid):
            reached = f"{run.request.get('reached_by')}{run.request.get('home')}"
            groups.setdefault((str(run.request.get("target")), reached), []).append(run)
    for (name, _), group in groups.items():
        try:
            _settle_on(home, target_of(group[0].request, home.path), group)
            unlink_quietly(os.fsencode(_silence(home, name)))
        except UnreachableError as error:
            since = _silent_since(home, name)
            if tell is not None:
                why = error.answer or error.what
                tell(f"{name} is unreachable since {since} ({why}); its runs are shown as last seen")
        except (HoldfastError, OSError) as error:
            if tell is not None and isinstance(error, HoldfastError):
                tell(f"{name}: {error.what}; its runs are shown as last seen")


def _settle_on(home: Home, target: Target, group: list[Run]) -> None:
    channel = connect(home, target)
    try:
        tickets = [run.ticket for run in group]
        states = target.launcher.look(channel, tickets)
        for run, ticket in zip(group, tickets, strict=True):
            _settle_one(home, target, channel, run, states[ticket])
    finally:
        channel.close()


def _settle_one(home: Home, target: Target, channel: RunnerChannel, run: Run, state: str) -> None:
    if state in ("absent", "alive") and _is_cancel_pending(run):
        target.launcher.stop(channel, run.ticket, "the user")
    elif state == "absent":
        _settle_absent(home, channel, run)
    elif state == "gone":
        channel.ask("bury", uid=run.uid, attempt=run.attempt_name)
    follower = Follower(home, run.uid, _unheard, attempt=run.attempt_name)
    try:
        follower.follow(channel, wait=False)
    finally:
        follower.close()


def give_up(home: Home, target: Target, run: Run, reason: str) -> None:
    """Close a run whose submit failed before it was started. One that is alive after all is left alone."""
    channel = connect(home, target)
    try:
        state = channel.ask("discard", uid=run.uid, attempt=run.attempt_name, reason=reason).get("state")
        if state == "closed" and channel.hello()["store"] != home.id:
            _settle_one(home, target, channel, run, "closed")
    finally:
        channel.close()


def _settle_absent(home: Home, channel: RunnerChannel, run: Run) -> None:
    """Close a run that the target does not have: it was never started, or its folder there was removed."""
    was_started = bool(run.events) or any(line.get("ticket") == run.ticket for line in run.client)
    reason = "the submitting command failed or was killed before the script was started"
    if was_started:
        reason = "its folder is no longer on the target; its outcome is unknown"
    channel.ask("discard", uid=run.uid, attempt=run.attempt_name, reason=reason)
    if was_started and channel.hello()["store"] != home.id:
        ingest.close_copy(home, run.uid, run.attempt_name, reason)


def _is_cancel_pending(run: Run) -> bool:
    """Somebody wrote down that it shall end, and perhaps was killed before the target heard of it."""
    return run.is_cancelled and not any(event.get("type") == "stopping" for event in run.events)


def _unheard(_block: bytes) -> None:
    """Nobody is watching; the mirror alone wants these bytes."""


def _is_being_submitted(home: Home, uid: str) -> bool:
    path = home.lock_file(f"submit-{uid}")
    if is_held(path):
        return True
    unlink_quietly(os.fsencode(path))
    return False


def _silent_since(home: Home, name: str) -> str:
    """When it was first found silent; written down, so that every later command tells the same time."""
    path = _silence(home, name)
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "x", encoding="ascii") as target:
            target.write(str(int(time.time())))
    except OSError:
        pass  # it was known already, or cannot be noted
    try:
        with open(path, encoding="ascii") as source:
            since = int(source.read() or time.time())
    except (OSError, ValueError):
        since = int(time.time())
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))


def _silence(home: Home, name: str) -> str:
    try:
        return home.silent(name)
    except untrusted.Untrusted:
        return home.silent("?")  # a run.json with a name that no target has
