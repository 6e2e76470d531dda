"""Finding out what became of runs while nobody was watching. Called by every command that shows or changes runs."""

from __future__ import annotations

import os

from holdfast.engine import follow
from holdfast.engine.channel import connect
from holdfast.engine.submit import target_of
from holdfast.errors import HoldfastError
from holdfast.store import runs
from holdfast.store.index import Index

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
    """Bring one open run up to date. A target that does not answer changes nothing."""
    if _is_being_submitted(home, run.uid):
        return
    try:
        target = target_of(run.request, home.path)
        channel = connect(home, target)
    except HoldfastError:
        return
    try:
        ticket = f"{run.uid}/a1"
        state = target.launcher.look(channel, [ticket])[ticket]
        if state == "absent":
            channel.ask(
                "discard", uid=run.uid, reason="the submitting command was killed before the script was started"
            )
        elif state == "gone":
            channel.ask("bury", uid=run.uid)
        follow.follow(home, channel, run.uid, _unheard, wait=False)
    except HoldfastError:
        return
    finally:
        channel.close()


def _unheard(_block: bytes) -> None:
    """Nobody is watching; the mirror alone wants these bytes."""


def _is_being_submitted(home: Home, uid: str) -> bool:
    path = os.path.join(home.path, "locks", f"submit-{uid}")
    if not os.path.exists(path):
        return False
    lock = home.lock(f"submit-{uid}")
    if not lock.try_hold():
        return True
    lock.release()
    os.unlink(path)
    return False
