"""Operations on existing attempts: check whether it is alive, stop it, close one whose supervisor is gone."""

import fcntl
import os
import time

from ..machine import node, processes
from ..plan import read_plan
from ..signals import signal
from ..store import evidence, jsonl, layout, run_files
from ..store.files import temporary_beside
from ..store.remove_tree import remove_tree
from . import guardian, process_tree, waiting

STOPPED_S = 0.5  # watchers that are stopped for so long do not continue each other any more
END_S = 10.0
ABANDONED_S = 600.0  # a cancel closes the run of a node that has been silent for so long


def look(attempt: "bytes") -> "str":
    """absent (never started here), queued, closed, alive, gone (its watchers ended without closing it), or elsewhere.

    ``elsewhere``: another node runs it and shares this folder; nothing can be concluded about it here. An attempt
    whose watchers are all stopped cannot end any more: it is ended now.
    """
    if not os.path.isdir(attempt):
        return "absent"
    is_waiting = waiting.is_waiting(attempt)
    alive = run_files.is_held(attempt)
    if run_files.closed(attempt) is not None:
        return "closed"
    if is_waiting:
        return "queued"
    if not alive and run_files.is_elsewhere(attempt):
        return "elsewhere"
    watchers = _watchers(attempt)
    if _are_stopped(watchers):
        return _end_stopped(attempt, watchers)
    return "alive" if alive or watchers else "gone"


def stop(attempt: "bytes", by: "str") -> "str":
    """Ask an attempt to end. The request is on disk before the signal, so that it is never forgotten.

    ``ended``: this request ended it; ``closed``: it had ended before.
    """
    if run_files.closed(attempt) is not None:
        return "closed"
    if _close_waiting(attempt, "canceled", 143, "canceled by %s before it was started" % by):
        return "ended"
    if run_files.is_held(attempt) or _watchers(attempt) or run_files.is_elsewhere(attempt):
        _request_cancel(attempt, by)
    state = look(attempt)
    if state == "absent":
        state = discard(attempt, "canceled", "canceled by %s before it was started" % by)
        return "ended" if state == "closed" else state
    if state == "gone":
        return bury(attempt)
    if state == "closed":
        return "ended" if (run_files.closed(attempt) or {}).get("ended_by") == "client" else state
    if state == "elsewhere" and run_files.silent_for(attempt) > ABANDONED_S:
        return _close_abandoned(attempt, by)
    if state == "elsewhere":
        return state  # its guardian reads the request
    first = _await_first_event(attempt)
    if first is None or not _is_still(first):
        return look(attempt)
    process_tree.tell([int(str(first["pid"]))], signal.SIGTERM)
    process_tree.tell([int(str(first[name])) for name in ("guardian", "pid")], signal.SIGCONT)  # either may be stopped
    return "asked"


def _request_cancel(attempt: "bytes", by: "str") -> "None":
    path = layout.control(attempt)
    if run_files.closed(attempt) is not None or (os.path.exists(path) and run_files.is_elsewhere(attempt)):
        return
    try:
        jsonl.append_line(path, dict(run_files.now(), what="cancel", by=by))
    except OSError:
        pass  # the run that has filled the disk is the very one to end


def _close_waiting(attempt: "bytes", outcome: "str", exit_code: "int", reason: "str") -> "bool":
    """Close an attempt that waits in a queue; False where none does, or its job is just starting."""
    if not waiting.is_waiting(attempt) or not waiting.claim(attempt):
        return False
    waiting.drop_secrets(attempt)
    run_files.close(attempt, outcome, exit_code, reason)
    return True


def bury(attempt: "bytes", is_job_gone: "bool" = False) -> "str":
    """Close an attempt whose watchers are gone, as lost. While its lock is held here, no other client does the same.

    ``is_job_gone``: its launcher says that there is no job for it any more, on whatever node it was to run or ran.
    """
    if is_job_gone and _close_waiting(attempt, "lost", 125, "its job left the queue before the script was started"):
        return "closed"
    state = look(attempt)
    if is_job_gone and state == "elsewhere":
        where = node.read(layout.alive(attempt)).get("host") or "another node"
        waiting.drop_secrets(attempt)
        run_files.close_as_lost(attempt, "its job on %s ended and did not say how; its outcome is unknown" % where)
        return look(attempt)
    if state not in ("gone", "alive"):  # another client that looks may hold the lock
        return state
    lock = os.open(layout.alive(attempt), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _take(lock) or _watchers(attempt):
            return look(attempt)
        if run_files.closed(attempt) is None:
            _close_for_the_dead(attempt)
        return "closed"
    finally:
        os.close(lock)


def _watchers(attempt: "bytes") -> "list[int]":
    """Supervisor and guardian, as far as they run here: where locks do not hold, their pids do."""
    first = _first_event(attempt) or {}
    if not first or not node.is_this_boot(first):
        return []
    named = [("pid", "start_time"), ("guardian", "guardian_start")]
    pids = [(int(str(first.get(name) or 0)), first.get(started)) for name, started in named]
    return [pid for pid, started in pids if pid and started and processes.is_running(pid, started)]


def _are_stopped(watchers: "list[int]") -> "bool":
    """Whether all of them are, and stay so: one that is not would continue the other at once."""
    if not watchers or not all(map(processes.is_stopped, watchers)):
        return False
    time.sleep(STOPPED_S)
    return all(map(processes.is_stopped, watchers))


def _end_stopped(attempt: "bytes", watchers: "list[int]") -> "str":
    """End a run in place of its watchers. They stay stopped, and parents of all its orphans, until nothing is left."""
    plan = read_plan(attempt)
    uid = os.path.basename(os.path.dirname(attempt)).decode("ascii")
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        family = {pid for root in watchers for pid in process_tree.family(root, uid)} - set(watchers)
        if not family:
            break
        process_tree.tell(sorted(family), signal.SIGSTOP)
        process_tree.tell(sorted(family), signal.SIGKILL)
        time.sleep(0.002)
    process_tree.tell(watchers, signal.SIGKILL)
    process_tree.end_marked(uid.encode("ascii"))
    if plan is not None and plan.container is not None:
        from . import container_process

        container_process.destroy(plan)
    why = guardian.reason_to_end(attempt, plan.timeout if plan is not None else None)
    who = "supervisor and guardian were both stopped, and a client ended the run"
    guardian.close_in_place(attempt, plan, why, who, ended_by="client")
    return "closed"


def _close_abandoned(attempt: "bytes", by: "str") -> "str":
    """Cancel a run of a node that has given no sign of life for long; whether it still runs there cannot be known."""
    where = node.read(layout.alive(attempt)).get("host") or "another node"
    minutes = run_files.silent_for(attempt) / 60
    reason = "canceled by %s; %s, where it ran, has been silent for %d minutes" % (by, where, minutes)
    run_files.close(attempt, "canceled", 143, reason)
    return "ended"


def discard(attempt: "bytes", outcome: "str", reason: "str") -> "str":
    """Close an attempt that was never started: claim its name, so that a late start finds it taken."""
    beside = temporary_beside(attempt)
    os.makedirs(beside, 0o700)
    events = run_files.Events(beside)
    events.close(outcome, 143 if outcome == "canceled" else 125, reason, files={})
    try:
        os.rename(beside, attempt)
    except OSError:
        remove_tree(beside)
        return _close_unaccepted(attempt, outcome, reason)
    return "closed"


def _close_unaccepted(attempt: "bytes", outcome: "str", reason: "str") -> "str":
    """Close an attempt whose name was claimed by a start that failed before the first event; others are left alone."""
    if _close_waiting(attempt, outcome, 125, reason):
        return "closed"
    lock = os.open(layout.alive(attempt), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if _take(lock):
            events = jsonl.read_lines(layout.events(attempt))
            if not events and not evidence.contradictions(attempt, events, True):
                run_files.close(attempt, outcome, 125, reason)
    finally:
        os.close(lock)
    return look(attempt)


def _take(lock: "int") -> "bool":
    """Take the ``alive`` lock. Checks and ``bury`` hold it for a moment, supervisor and guardian all the time."""
    for _ in range(200):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.005)
    return False


def _close_for_the_dead(attempt: "bytes") -> "None":
    waiting.drop_secrets(attempt)  # of a job that was killed while it started
    first = _first_event(attempt)
    uid = os.path.basename(os.path.dirname(attempt))
    damage = evidence.contradictions(attempt, jsonl.read_lines(layout.events(attempt)), True)
    if first is not None and first.get("boot_id") != processes.boot_id():
        reason = "the target was rebooted at %s" % processes.boot_time()
    elif first is None and not damage:
        reason = "the runner was killed before the script was started"
    else:
        orphans = process_tree.end_marked(uid)
        reason = "supervisor and guardian were both killed; the script's outcome is unknown"
        reason += "; %d of its processes were still there and were ended" % len(orphans) if orphans else ""
    details = {}  # type: dict[str, object]
    if damage:
        reason = "its events.jsonl is damaged and its outcome is unknown: %s" % "; ".join(damage)
        details = {"damaged": damage}
    plan = read_plan(attempt) if first is not None or damage else None
    if plan is not None and plan.container is not None:
        from . import container_process

        container_process.save_checkpoints(plan, attempt)
        container_process.destroy(plan)
    run_files.close(attempt, "lost", 125, reason, **details)


def _await_first_event(attempt: "bytes") -> "dict[str, object] | None":
    """A start that is milliseconds old may not have written it yet."""
    for _ in range(200):
        first = _first_event(attempt)
        if first is not None or not run_files.is_held(attempt):
            return first
        time.sleep(0.005)
    return None


def _first_event(attempt: "bytes") -> "dict[str, object] | None":
    """The event that names host, boot and process."""
    events = jsonl.read_lines(layout.events(attempt))
    return events[0] if events and events[0].get("type") == "accepted" else None


def _is_still(first: "dict[str, object]") -> "bool":
    pid = int(str(first["pid"]))
    return first.get("boot_id") == processes.boot_id() and processes.start_time(pid) == first.get("start_time")
