"""Switches off a machine that had no run for the configured time (``stopWhenIdleMinutes``).

There is no daemon: the guardian of a run waits here after the run has ended. It ends as soon as there is a newer run on
this machine, whose guardian waits in its place. Runs of other nodes that share the store, which may lie on a disk of
this machine, keep it on as long as they show signs of life.
"""

import os
import sys
import time

from ..decoding import as_bytes
from ..machine import node
from ..store import layout, run_files
from ..store.files import SYNCED, write_whole

MYPY = False
if MYPY:
    from collections.abc import Callable

    from ..plan import Idle

_SILENT_S = 3600.0  # the clocks of nodes differ


def become(home: "bytes", runner: "str", uid: "str", settings: "Idle") -> "None":
    """Turn this process, which has nothing left to do, into the one that waits. Returns only if that fails."""
    folder = layout.runner(home, runner.encode("ascii"))
    program = "import sys; sys.path.insert(0, sys.argv[1]); from runner.run import idle; idle.main(sys.argv[2:])"
    arguments = [os.fsdecode(folder), os.fsdecode(home), uid, str(settings.minutes), settings.command]
    try:
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", program, *arguments])
    except OSError:
        return


def main(arguments: "list[str]") -> "None":
    import subprocess  # slow to load, and few runs end here

    home, uid, minutes, command = os.fsencode(arguments[0]), arguments[1], float(arguments[2]), arguments[3]
    _take_over(home, uid)
    seconds = minutes * 60
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(15.0, max(0.05, seconds / 20)))
        if not _is_mine(home, uid) or _any_attempt(home, _may_live_here):
            return
        if _any_attempt(home, _lives_elsewhere):
            end = time.monotonic() + seconds
    with open(layout.idle_log(home), "ab") as log:
        note = "%s idle for %g minutes: %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), minutes, command)
        log.write(as_bytes(note))
        log.flush()
        subprocess.call(["/bin/sh", "-c", command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _take_over(home: "bytes", uid: "str") -> "None":
    """Only the guardian of the newest run waits; an earlier one sees another name here and ends."""
    path = _path(home)
    write_whole(path, uid.encode("ascii"), sync=SYNCED)


def _is_mine(home: "bytes", uid: "str") -> "bool":
    try:
        with open(_path(home), "rb") as source:
            return source.read() == uid.encode("ascii")
    except OSError:
        return False


def _path(home: "bytes") -> "bytes":
    """Of this node: guardians on others wait for themselves."""
    return layout.idle(home) + b"-" + node.name()


def _any_attempt(home: "bytes", holds: "Callable[[bytes], bool]") -> "bool":
    runs = layout.runs(home)
    for name in os.listdir(runs):
        folder = os.path.join(runs, name)
        try:
            attempts = os.listdir(folder)
        except OSError:
            continue
        if any(holds(os.path.join(folder, attempt)) for attempt in attempts if attempt[:1] == b"a"):
            return True
    return False


def _may_live_here(attempt: "bytes") -> "bool":
    return run_files.may_live(attempt) and not run_files.is_elsewhere(attempt)


def _lives_elsewhere(attempt: "bytes") -> "bool":
    """A node that crashed closes nothing; its runs do not count for ever."""
    return run_files.silent_for(attempt) < _SILENT_S and run_files.is_elsewhere(attempt) and run_files.may_live(attempt)
