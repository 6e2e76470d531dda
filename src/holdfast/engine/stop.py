"""Asking a run to end."""

from __future__ import annotations

from holdfast.engine.channel import connect
from holdfast.engine.known import target_of
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.home import Home


def cancel(home: Home, uid: str, by: str) -> str:
    """The wish is written down before anybody is asked; returns what the target said: asked, closed."""
    run = runs.read(home, uid)
    runs.append_client(home, uid, "cancel", by=by)
    target = target_of(run.request, home.path)
    channel = connect(home, target)
    try:
        return target.launcher.stop(channel, run.ticket, by)
    finally:
        channel.close()
