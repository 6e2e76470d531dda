"""Asking a run to end."""

from __future__ import annotations

from holdfast import lifecycle
from holdfast.engine.channel import LOOKING, connect
from holdfast.engine.follow import bring_up_to_date
from holdfast.engine.known import target_of
from holdfast.errors import UnreachableError
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.channel import RunnerChannel
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.targets import Target


def cancel(home: Home, uid: str, by: str) -> tuple[str, str]:
    """Returns the run's state before, and what the target answered: asked, or closed.

    A target that cannot be reached within seconds is told by the first command that reaches it.
    """
    run = runs.read(home, uid)
    target = target_of(run.request, home.path)
    channel = connect(home, target, LOOKING)
    try:
        state = _state(home, target, channel, run)
        if state in lifecycle.FINAL:
            return state, "closed"
        runs.append_client(home, uid, "cancel", by=by)
        channel.renew()
        answer = target.launcher.stop(channel, run.ticket, by)
        if answer == "closed":
            channel.renew()
            bring_up_to_date(home, channel, run)
        return state, answer
    except UnreachableError as error:
        if not runs.read(home, uid).is_cancelled:
            runs.append_client(home, uid, "cancel", by=by)
        hint = f"the request is recorded: the run will be ended by the first command that reaches {target.name}"
        raise UnreachableError(error.what, where=error.where, answer=error.answer, hint=hint) from error
    finally:
        channel.close()


def _state(home: Home, target: Target, channel: RunnerChannel, run: Run) -> str:
    """As the target knows it now."""
    if target.launcher.look(channel, [run.ticket])[run.ticket] in ("alive", "closed"):
        bring_up_to_date(home, channel, run)
    return lifecycle.state_of(runs.read(home, run.uid).events)
