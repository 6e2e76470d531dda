"""Asking a run to end."""

from __future__ import annotations

from holdfast.engine.channel import connect
from holdfast.engine.known import target_of
from holdfast.errors import UnreachableError
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
    except UnreachableError as error:
        hint = f"the wish is kept: it will be ended by the first command that reaches {target.name}"
        raise UnreachableError(error.what, where=error.where, answer=error.answer, hint=hint) from error
    finally:
        channel.close()
