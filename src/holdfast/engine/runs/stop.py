"""Cancels a run."""

from __future__ import annotations

from holdfast import lifecycle
from holdfast.engine.connection.channel import LOOKING, connect
from holdfast.engine.runs.follow import bring_up_to_date
from holdfast.engine.runs.run_target import target_of
from holdfast.errors import UnreachableError
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.home import Home

_ENDING = ("stopping", "exited", "closed")


def cancel(home: Home, uid: str, by: str) -> tuple[str, str]:
    """Returns the run's state, and what the target answered.

    asked: it will end; ended: this request ended it; closed: it had ended before. The run is not looked at first: a
    look ends a run whose watchers are stopped, and would not know that it was to be canceled. A target that cannot be
    reached within seconds gets the request from the first command that reaches it.
    """
    run = runs.read(home, uid)
    target = target_of(run.request, home.path)
    channel = connect(home, target, LOOKING)
    try:
        answer = target.launcher.stop(channel, run.ticket, by)
        if answer != "closed":
            runs.append_client(home, uid, "cancel", by=by)
        if answer in ("asked", "closed", "ended"):
            channel.renew()
            bring_up_to_date(home, channel, run)
        events = runs.read(home, uid).events
        if answer == "asked":
            events = [event for event in events if event.get("type") not in _ENDING]
        return lifecycle.state_of(events), answer
    except UnreachableError as error:
        if not runs.read(home, uid).is_cancelled:
            runs.append_client(home, uid, "cancel", by=by)
        hint = f"the request is recorded; the first command that reaches {target.name} cancels the run"
        raise UnreachableError(error.what, where=error.where, answer=error.answer, hint=hint) from error
    finally:
        channel.close()
