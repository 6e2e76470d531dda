"""Starts a new attempt of a run that was lost with its machine, or whose script was killed.

Only two commands do it: the submit that still waits for the run, as often as ``--retries`` allows, and ``retry``.
Values of ``-e``, ``--env-file`` and ``--secret`` are kept nowhere, so a run that was given some is not started again.
"""

from __future__ import annotations

import os

from holdfast import lifecycle
from holdfast.errors import UsageError
from holdfast.runner.store import evidence
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Target

_MOST_WITHOUT_BEGINNING = 3  # attempts of a run whose script has not begun in any of them


def refusal(home: Home, run: Run) -> str:
    """Why this run must not be started again; empty if it may be. Any trace of an end but SIGKILL forbids it."""
    if run.damage:
        return run.damage
    state = lifecycle.state_of(run.events)
    was_killed = lifecycle.was_killed(run.events)
    if state != lifecycle.LOST and not was_killed:
        return f"its state is {state}; only a run that is Lost, or whose script was killed (SIGKILL), can be restarted"
    if run.is_cancelled:
        return "it was canceled"
    if any(event.get("type") == "exited" for event in run.events) and not was_killed:
        return "its script has ended"
    from holdfast.engine.runs.run_target import store_of

    here = store_of(run.request, home.path) == home.path
    damage = evidence.contradictions(os.fsencode(run.attempt), run.events, here)
    if damage:
        return f"its events.jsonl is damaged: {'; '.join(damage)}"
    if not was_killed and any(_tells_of_end(line, run.attempt_name) for line in run.client):
        return "a command that followed it saw it end"
    plan = runs.read_plan(run)
    if plan is None:
        return "its plan.json is missing"
    if plan.get("env"):
        return "it had environment variables whose values are not stored"
    return ""


def is_due(home: Home, run: Run) -> bool:
    """Whether the submit that waits for this run starts it again."""
    if refusal(home, run):
        return False
    retries = run.request.get("retries")
    allowed = retries if isinstance(retries, int) else 0
    begun = any(event.get("type") == "started" for event in run.events)
    return run.attempt_number <= (allowed if begun else max(allowed, _MOST_WITHOUT_BEGINNING - 1))


def start_again(home: Home, target: Target, channel: RunnerChannel, run: Run) -> None:
    """Start a further attempt. Two clients may both try: the attempt's name lets one of them in."""
    reason = refusal(home, run)
    plan = runs.read_plan(run)
    if reason or plan is None:
        hint = "holdfast submit starts a new run; holdfast reproduce starts one from this run's own files"
        raise UsageError("this run cannot be restarted", where=str(run.request.get("run_id")), answer=reason, hint=hint)
    name = f"a{run.attempt_number + 1}"
    plan = {**plan, "attempt": name}
    secrets: Json = {"env": {}, "on_end": ""}
    if channel.hello()["store"] != home.id:
        os.makedirs(home.run(run.uid, name), 0o700, exist_ok=True)
        secrets = {**secrets, "request": run.request}
    ticket = target.launcher.start(channel, plan, secrets)
    runs.append_client(home, run.uid, "ticket", ticket=ticket)
    _reopen_in_index(home, run.uid)


def _reopen_in_index(home: Home, uid: str) -> None:
    """The index may have it as ended, and does not read ended runs again."""
    from holdfast.store.index.index import Index

    index = Index(home)
    try:
        index.refresh([uid])
    finally:
        index.close()


def _tells_of_end(line: Json, attempt: str) -> bool:
    """A submit that stayed to the end notes what it saw; that it saw the run lost is no end of the script."""
    return line.get("type") == "ledger" and line.get("attempt", attempt) == attempt and line.get("outcome") != "lost"
