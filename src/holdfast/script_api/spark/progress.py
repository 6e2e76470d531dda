"""The stages that Spark works on, as one line in a file of the run's scratch folder; clients at a terminal show it."""

import importlib
import os
import threading

from . import settings

MYPY = False
if MYPY:
    from collections.abc import Iterable
    from typing import Any

_files = importlib.import_module(
    "holdfast.script_api.replace" if __name__.startswith("holdfast.") else "_holdfast_replace"
)
FILE = "progress"
_INTERVAL_S = 0.5
_stop = threading.Event()
_last = [""]


def begin(context: "Any") -> "None":
    """Ask Spark twice a second, in a thread of its own, until ``end``."""
    if not _folder():
        return  # in a container, or not in a run
    _stop.clear()
    thread = threading.Thread(target=_watch, args=(context.statusTracker(),))
    thread.daemon = True
    thread.start()


def end() -> "None":
    _stop.set()


def show(stages: "Iterable[tuple[int, int, int]]") -> "None":
    """Write the line for ``(stage, tasks that ended, tasks)``; an empty one where no stage is active."""
    rows = sorted(stages)
    text = ", ".join("stage %d: %d of %d tasks" % row for row in rows[:3])
    folder = _folder()
    if not folder or text == _last[0]:
        return
    _last[0] = text
    try:
        _files.replace_text(os.path.join(folder, FILE), text)
    except OSError:
        return  # nothing but a line on a screen


def _watch(tracker: "Any") -> "None":
    try:
        while not _stop.wait(_INTERVAL_S):
            infos = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            show((info.stageId, info.numCompletedTasks, info.numTasks) for info in infos if info is not None)
    except Exception:
        return  # the JVM has ended


def _folder() -> "str":
    folder = str(settings().get("scratch") or "")
    return folder if settings().get("work") and os.access(folder, os.W_OK) else ""
