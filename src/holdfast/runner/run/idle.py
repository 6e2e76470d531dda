"""Switches off a machine that had no run for the configured time (``stopWhenIdleMinutes``).

There is no daemon: the guardian of a run waits here after the run has ended. It ends as soon as there is a newer run,
whose guardian waits in its place.
"""

import os
import sys
import time

from ..decoding import as_bytes
from ..store import layout, run_files
from ..store.files import SYNCED, write_whole

MYPY = False
if MYPY:
    from ..plan import Idle


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
        if not _is_mine(home, uid) or _anything_runs(home):
            return
    with open(layout.idle_log(home), "ab") as log:
        note = "%s idle for %g minutes: %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), minutes, command)
        log.write(as_bytes(note))
        log.flush()
        subprocess.call(["/bin/sh", "-c", command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _take_over(home: "bytes", uid: "str") -> "None":
    """Only the guardian of the newest run waits; an earlier one sees another name here and ends."""
    path = layout.idle(home)
    write_whole(path, uid.encode("ascii"), sync=SYNCED)


def _is_mine(home: "bytes", uid: "str") -> "bool":
    try:
        with open(layout.idle(home), "rb") as source:
            return source.read() == uid.encode("ascii")
    except OSError:
        return False


def _anything_runs(home: "bytes") -> "bool":
    runs = layout.runs(home)
    for name in os.listdir(runs):
        folder = os.path.join(runs, name)
        try:
            attempts = os.listdir(folder)
        except OSError:
            continue
        if any(run_files.may_live(os.path.join(folder, attempt)) for attempt in attempts if attempt[:1] == b"a"):
            return True
    return False
