"""What the files of an attempt prove about its script, whatever its events say.

An events.jsonl that was cut at the end of a line looks like that of a run that never began. Its other files tell:
a script that has begun is never started again, and ``store verify`` reports the contradiction.
"""

import os

from . import layout

MYPY = False
if MYPY:
    from collections.abc import Iterable, Mapping


def contradictions(attempt: "bytes", events: "Iterable[Mapping[str, object]]", where_it_ran: "bool") -> "list[str]":
    """Files that cannot be there if the events are complete; empty when both agree.

    ``where_it_ran``: this is the folder that the runner writes to, and not a client's copy of it.
    """
    events = list(events)
    kinds = {str(event.get("type")) for event in events}
    problems = [
        "events were missing when it was closed: %s" % event["damaged"] for event in events if "damaged" in event
    ]
    if "started" not in kinds:
        problems += [
            "%s, but no event shows that the script started" % trace for trace in _traces_of_start(attempt, kinds)
        ]
    if "exited" not in kinds and os.path.lexists(layout.manifest(attempt)):
        problems.append("there is a list of outputs, but no event shows that the script ended")
    if where_it_ran and "closed" not in kinds and _was_closed(attempt):
        problems.append("the attempt was closed once, but there is no event for it")
    return problems


def _traces_of_start(attempt: "bytes", kinds: "set[str]") -> "list[str]":
    traces = []
    size = _size(layout.log(attempt))
    if size > 0:
        traces.append("the log has %d bytes" % size)
    if _has_entries(layout.metrics(attempt)):
        traces.append("there are metrics")
    if "exited" in kinds:
        traces.append("the script ended")
    return traces


def _was_closed(attempt: "bytes") -> "bool":
    """A launched attempt keeps its reserve of disk space until the closing event is written."""
    launched = os.path.exists(layout.plan(attempt))
    return launched and not os.path.exists(layout.reserve(attempt))


def _has_entries(folder: "bytes") -> "bool":
    """The list of packages says nothing: a power cut may take the event before it and leave its name."""
    ours = os.path.basename(layout.package_file(folder))
    try:
        return any(name != ours for name in os.listdir(folder))
    except OSError:
        return False


def _size(path: "bytes") -> "int":
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
