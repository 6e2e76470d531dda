"""Updates the state of open runs from their targets. Called by every command that shows or changes runs.

Nothing here starts a script: a lost run is started again by the submit that still waits for it, or by ``retry``.
"""

from __future__ import annotations

import os
import time

from holdfast import lifecycle
from holdfast.engine.connection.channel import ASKING, LOOKING, connect
from holdfast.engine.runs.follow import bring_up_to_date
from holdfast.engine.runs.run_target import target_of
from holdfast.errors import (
    HoldfastError,
    InternalError,
    MalformedAnswerError,
    RunnerError,
    StoreError,
    UnfinishedError,
    UnreachableError,
)
from holdfast.runner import untrusted
from holdfast.runner.machine import node
from holdfast.runner.store.files import unlink_quietly
from holdfast.store import mirror, runs
from holdfast.store.locks import is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Target

    _Unsettled = tuple[list[Run], list[tuple[Run, HoldfastError]]]

_LIMIT_S = 8.0  # for all targets together; as LOOKING says for each


def settle(home: Home, open_runs: list[Run], tell: Callable[[str], None] | None = None) -> None:
    """Bring open runs up to date. All targets are asked at once, and each of them for itself.

    What a target does not tell within seconds stays as it was last seen, and ``tell`` hears why.
    """
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in open_runs:
        if not run.problem and not _is_being_submitted(home, run):
            reached = f"{run.request.get('reached_by')}{run.request.get('home')}"
            groups.setdefault((str(run.request.get("target")), reached), []).append(run)
    if len(groups) == 1 and len(open_runs) == 1:
        ((name, _), group) = next(iter(groups.items()))
        messages = [_settle_group(home, name, group)]
    else:
        messages = _settle_at_once(home, [(name, group) for (name, _), group in groups.items()])
    for message in filter(None, messages if tell is not None else ()):
        tell(message)  # type: ignore[misc]


def _settle_at_once(home: Home, groups: list[tuple[str, list[Run]]]) -> list[str]:
    """A thread for each target. One that is not done in time is left alone: it ends with this process."""
    import threading

    deadline = time.monotonic() + _LIMIT_S
    messages: dict[int, str] = {}

    def settle_group(number: int, name: str, group: list[Run]) -> None:
        messages[number] = _settle_group(home, name, group)

    asking = [number for number, (_, group) in enumerate(groups) if _asks_person(home, group[0])]
    threads = [
        threading.Thread(target=settle_group, args=(number, name, group), daemon=True)
        for number, (name, group) in enumerate(groups)
        if number not in asking
    ]
    for thread in threads:
        thread.start()
    for number in asking:  # one after the other: each may have to prompt for a password
        settle_group(number, *groups[number])
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [messages.get(number, _late(name)) for number, (name, _) in enumerate(groups)]


def _settle_group(home: Home, name: str, group: list[Run]) -> str:
    """Settle the runs of one target; returns why they could not all be. Nothing here concerns other targets."""
    try:
        elsewhere, refused = _settle_on(home, target_of(group[0].request, home.path), group)
        ended = [message for message in (_ended_by_client(home, run) for run in group) if message]
        unlink_quietly(os.fsencode(_silence(home, name)))
        return "; ".join(filter(None, (_on_other_nodes(elsewhere), *ended, _on_refused(name, refused))))
    except UnfinishedError:
        return _late(name)
    except UnreachableError as error:
        why = f"{error.what}: {error.answer}" if error.answer else error.what
        return f"{name} is unreachable since {_silent_since(home, name)} ({why}); its runs are shown as last seen"
    except HoldfastError as error:
        return f"{name}: {error.what}; its runs are shown as last seen"
    except OSError:
        return ""  # a disk that refuses changes nothing
    except Exception as error:
        return (
            f"{name}: Holdfast failed on its answer ({type(error).__name__}: {error}); its runs are shown as last seen"
        )


def _late(name: str) -> str:
    return f"{name} did not answer everything within {_LIMIT_S:g} s; its runs are shown as last seen"


def _on_refused(name: str, refused: list[tuple[Run, HoldfastError]]) -> str:
    """Runs that could not be settled although their target answered."""
    if not refused:
        return ""
    run, error = refused[0]
    why = f"{error.what}: {error.answer}" if error.answer else error.what
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"{name}: {run.request.get('run_id')} is shown as last seen ({why}){more}"


def _asks_person(home: Home, run: Run) -> bool:
    try:
        return target_of(run.request, home.path).host.asks_person
    except HoldfastError:
        return False


def _ended_by_client(home: Home, run: Run) -> str:
    """That looking at this run has ended it, because nothing else could any more."""
    closed = next((event for event in runs.read(home, run.uid).events if event.get("type") == "closed"), {})
    if closed.get("ended_by") != "client" or lifecycle.state_of(run.events) in lifecycle.FINAL:
        return ""
    return f"{run.request.get('run_id')} was ended by this command: {closed.get('reason')}"


def _on_other_nodes(group: list[Run]) -> str:
    if not group:
        return ""
    names = ", ".join(str(run.request.get("run_id")) for run in group[:3]) + ("..." if len(group) > 3 else "")
    hosts = ", ".join(sorted({str(run.events[0].get("host")) for run in group if run.events}))
    return f"started on another node{f' ({hosts})' if hosts else ''}, shown as last seen: {names}"


def _settle_on(home: Home, target: Target, group: list[Run]) -> _Unsettled:
    """Returns those that another node runs, of which nothing can be said here, and those that could not be settled."""
    channel = connect(home, target, LOOKING)
    try:
        channel.hello()
        refused: list[tuple[Run, HoldfastError]] = []
        states = _look(target, channel, group, refused)
        for run in group:
            if run is not group[0]:
                channel.renew()
            try:
                if run.ticket in states:
                    _settle_one(home, target, channel, run, states[run.ticket])
            except (InternalError, MalformedAnswerError, RunnerError, StoreError) as error:
                if channel.is_broken:
                    raise
                refused.append((run, error))  # for its own files; the others are looked at all the same
            except OSError:
                continue  # a disk that refuses changes nothing
        return [run for run in group if states.get(run.ticket) == "elsewhere"], refused
    finally:
        channel.close()


def _look(
    target: Target, channel: RunnerChannel, group: list[Run], refused: list[tuple[Run, HoldfastError]]
) -> dict[str, str]:
    """The state of each run by its ticket; those that cannot be looked at are added to ``refused``."""
    try:
        return target.launcher.look(channel, [run.ticket for run in group])
    except (RunnerError, StoreError) as error:
        if len(group) == 1:
            refused.append((group[0], error))
            return {}
    states: dict[str, str] = {}
    for run in group:  # one of them is in the way of the others
        channel.renew()
        states.update(_look(target, channel, [run], refused))
    return states


def _settle_one(home: Home, target: Target, channel: RunnerChannel, run: Run, state: str) -> None:
    if run.seen_outcome:  # it is known to have ended: nothing is concluded here, only missing lines are fetched
        if state == "closed":
            bring_up_to_date(home, channel, run)
        return
    is_over = lifecycle.state_of(run.events) in lifecycle.FINAL
    if state in ("absent", "alive", "elsewhere", "queued") and not is_over and _is_cancel_pending(run):
        target.launcher.stop(channel, run.ticket, "the user")
    elif state == "absent":
        _settle_absent(home, target, channel, run)
    elif state == "gone":
        target.launcher.bury(channel, run.ticket)
    bring_up_to_date(home, channel, run)


def give_up(home: Home, target: Target, run: Run, reason: str) -> None:
    """Close a run whose submit failed before it was started. One that did start is not touched."""
    channel = connect(home, target, ASKING)
    try:
        state = target.launcher.discard(channel, run.ticket, reason, "failed")
        if state == "closed" and channel.hello()["store"] != home.id:
            _settle_one(home, target, channel, run, "closed")
    finally:
        channel.close()


def _settle_absent(home: Home, target: Target, channel: RunnerChannel, run: Run) -> None:
    """Close a run that the target does not have: it was never started, or its folder there was removed."""
    if lifecycle.state_of(run.events) in lifecycle.FINAL:
        return  # its end is known here, and its folder there may have been removed since
    was_started = bool(run.events) or run.is_start_noted
    if not was_started and not node.is_this(_submitted_on(run)):
        return  # that node may be submitting it now: its lock cannot be seen here
    outcome, reason = "failed", "the submitting command failed or was killed before the script was started"
    if was_started:
        outcome, reason = "lost", "its folder is no longer on the target; its outcome is unknown"
    target.launcher.discard(channel, run.ticket, reason, outcome)
    if was_started and channel.hello()["store"] != home.id:
        mirror.close_copy(home, run.uid, run.attempt_name, reason)


def _is_cancel_pending(run: Run) -> bool:
    """A cancel was recorded, and its command may have been killed before it reached the target."""
    return run.is_cancelled and not any(event.get("type") == "stopping" for event in run.events)


def _submitted_on(run: Run) -> Json:
    """The mark of the node that submitted the run; empty in runs of older versions."""
    mark = run.request.get("node")
    return mark if isinstance(mark, dict) else {}


def _is_being_submitted(home: Home, run: Run) -> bool:
    path = home.lock_file(f"submit-{run.uid}")
    if is_held(path):
        return True
    if node.is_this(_submitted_on(run)):
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


def is_silent(home: Home, run: Run) -> bool:
    """Whether the target of a run did not answer when it was last asked."""
    return os.path.exists(_silence(home, str(run.request.get("target"))))


def silent_since(home: Home, run: Run) -> float | None:
    """When the target of a run was first found not to answer, in seconds since the epoch; None if it answers."""
    try:
        return os.path.getmtime(_silence(home, str(run.request.get("target"))))
    except FileNotFoundError:
        return None


def _silence(home: Home, name: str) -> str:
    try:
        return home.silent(name)
    except untrusted.Untrusted:
        return home.silent("?")  # a run.json with a name that no target has
