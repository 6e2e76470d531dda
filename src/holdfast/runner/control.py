"""Looking after attempts that are already there: is it alive, please stop, and the last rites for one that is gone."""

import fcntl
import os
import signal
import time

from . import hostfacts, jsonl, kill, records


def look(attempt: "bytes") -> "str":
    """absent (never started here), closed, alive, or gone (nobody holds it and nobody closed it)."""
    if not os.path.isdir(attempt):
        return "absent"
    alive = records.is_held(attempt)
    if records.closed(attempt) is not None:
        return "closed"
    return "alive" if alive else "gone"


def stop(attempt: "bytes", by: "str") -> "str":
    """Ask an attempt to end. The request is on disk before the signal, so that it is never forgotten."""
    state = look(attempt)
    if state == "absent":
        return discard(attempt, "canceled", "canceled by %s before it was started" % by)
    if state == "gone":
        return bury(attempt)
    if state == "closed":
        return state
    jsonl.append_line(os.path.join(attempt, b"control.jsonl"), dict(records.now(), what="cancel", by=by))
    first = _first_event(attempt)
    if first is None or not _is_still(first):
        return look(attempt)
    kill.tell([int(str(first["pid"]))], signal.SIGTERM)
    return "asked"


def bury(attempt: "bytes") -> "str":
    """Close an attempt whose watchers are gone. Holding its lock makes sure that there is one undertaker at a time."""
    if not os.path.isdir(attempt):
        return "absent"
    lock = os.open(os.path.join(attempt, b"alive"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return look(attempt)
    try:
        if records.closed(attempt) is None:
            _close_for_the_dead(attempt)
        return "closed"
    finally:
        os.close(lock)


def discard(attempt: "bytes", outcome: "str", reason: "str") -> "str":
    """Close an attempt that was never started: claim its name, so that a late start finds it taken."""
    beside = attempt + b".%d.tmp" % os.getpid()
    os.makedirs(beside, 0o700)
    events = records.Events(beside)
    events.add("closed", outcome=outcome, exit_code=143 if outcome == "canceled" else 125, reason=reason, files={})
    events.sync()
    try:
        os.rename(beside, attempt)
    except OSError:
        import shutil

        shutil.rmtree(os.fsdecode(beside), ignore_errors=True)
        return look(attempt)
    return "closed"


def _close_for_the_dead(attempt: "bytes") -> "None":
    first = _first_event(attempt)
    uid = os.path.basename(os.path.dirname(attempt))
    if first is not None and first.get("boot_id") != hostfacts.boot_id():
        reason = "the machine was restarted while it ran"
    elif first is None:
        reason = "the runner was killed before the script was started"
    else:
        orphans = kill.end_marked(uid)
        reason = "supervisor and guardian were both killed; the script's outcome is unknown"
        reason += "; %d of its processes were still there and were ended" % len(orphans) if orphans else ""
    events = records.Events(attempt)
    events.add("closed", outcome="lost", exit_code=125, reason=reason, files={})
    events.sync()


def _first_event(attempt: "bytes") -> "dict[str, object] | None":
    """The event that names host, boot and process. A start that is milliseconds old may not have written it yet."""
    for _ in range(200):
        events = jsonl.read_lines(os.path.join(attempt, b"events.jsonl"))
        if events:
            return events[0] if events[0].get("type") == "accepted" else None
        if not records.is_held(attempt):
            return None
        time.sleep(0.005)
    return None


def _is_still(first: "dict[str, object]") -> "bool":
    pid = int(str(first["pid"]))
    return first.get("boot_id") == hostfacts.boot_id() and hostfacts.start_time(pid) == first.get("start_time")
