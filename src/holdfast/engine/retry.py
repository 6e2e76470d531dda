"""Starting a run again that was lost with its machine: a new attempt of the same run, as often as was asked for.

What a script was given and nobody kept (values of ``-e``, ``--env-file``, ``--secret``) is known only to the command
that submitted it. Without it a run is not started again, and says so.
"""

from __future__ import annotations

import os

from holdfast import lifecycle
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.targets import Target


def may_start_again(run: Run) -> bool:
    """Lost, and either never begun (then it still waits for its turn) or with attempts left."""
    if lifecycle.state_of(run.events) != lifecycle.LOST or run.is_cancelled:
        return False
    begun = any(event.get("type") == "started" for event in run.events)
    retries = run.request.get("retries")
    return not begun or (isinstance(retries, int) and run.attempt_number <= retries)


def start_again(home: Home, target: Target, channel: RunnerChannel, run: Run, told: Json | None = None) -> bool:
    """Whether a further attempt is on its way. Two clients may both try: the attempt's name lets one of them in."""
    plan = runs.read_plan(run)
    if plan is None or (told is None and plan.get("env")):
        return False
    name = f"a{run.attempt_number + 1}"
    plan = {**plan, "attempt": name}
    shared = channel.hello()["store"] == home.id
    told = told or {"env": {}, "on_end": ""}
    if not shared:
        os.makedirs(home.run(run.uid, name), 0o700, exist_ok=True)
        told = {**told, "request": run.request}
    ticket = target.launcher.start(channel, plan, told)
    runs.append_client(home, run.uid, "ticket", ticket=ticket)
    return True
