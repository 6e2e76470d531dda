"""Finding out what became of runs while nobody was watching. Called by every command that shows or changes runs."""

from __future__ import annotations

import os

from holdfast.engine import follow
from holdfast.engine.channel import connect
from holdfast.engine.submit import target_of
from holdfast.errors import HoldfastError
from holdfast.runner.sync import unlink_quietly
from holdfast.store import runs
from holdfast.store.index import Index
from holdfast.store.locks import is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.home import Home
    from holdfast.store.runs import Run


def open_index(home: Home) -> Index:
    """The index, with every run that was open looked up on its target first."""
    index = Index(home)
    waiting = index.open_runs()
    if waiting:
        for uid in waiting:
            settle(home, runs.read(home, uid))
        index.refresh(waiting)
    return index


def settle(home: Home, run: Run) -> None:
    """Bring one open run up to date. A target that does not answer, or a disk that refuses, changes nothing."""
    if run.problem or _is_being_submitted(home, run.uid):
        return
    try:
        target = target_of(run.request, home.path)
        channel = connect(home, target)
    except HoldfastError:
        return
    try:
        ticket = f"{run.uid}/a1"
        state = target.launcher.look(channel, [ticket])[ticket]
        if state in ("absent", "alive") and _is_cancel_pending(run):
            target.launcher.stop(channel, ticket, "the user")
        elif state == "absent":
            reason = "the submitting command failed or was killed before the script was started"
            channel.ask("discard", uid=run.uid, reason=reason)
        elif state == "gone":
            channel.ask("bury", uid=run.uid)
        follow.follow(home, channel, run.uid, _unheard, wait=False)
    except (HoldfastError, OSError):
        return
    finally:
        channel.close()


def _is_cancel_pending(run: Run) -> bool:
    """Somebody wrote down that it shall end, and perhaps was killed before the target heard of it."""
    asked = any(line.get("type") == "cancel" for line in run.client)
    return asked and not any(event.get("type") == "stopping" for event in run.events)


def _unheard(_block: bytes) -> None:
    """Nobody is watching; the mirror alone wants these bytes."""


def _is_being_submitted(home: Home, uid: str) -> bool:
    path = os.path.join(home.path, "locks", f"submit-{uid}")
    if is_held(path):
        return True
    unlink_quietly(os.fsencode(path))
    return False
