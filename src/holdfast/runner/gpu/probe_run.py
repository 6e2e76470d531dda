"""Runs ``probe.py`` in the script's runtime and reads its answer.

The answer may come from a container or from a Python that prints other things, so it is untrusted: it is cut to size
and cleaned before it is shown.
"""

import json
import os
import time

from ..decoding import as_bytes, readable
from ..signals import signal
from ..store import layout
from . import probe_verdict

MYPY = False
if MYPY:
    import subprocess
    from typing import Any

PROGRAM = as_bytes(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py"))
MARK = b"holdfast-touch "
LOOK_S = 20.0
_KILLED_S = 1.0


def here(argv0: "bytes", env: "dict[bytes, bytes]", folder: "bytes", limit_s: "float" = LOOK_S) -> "dict[str, Any]":
    """``ok``, ``why`` and ``fix`` as text, and ``facts``, for a script that ``argv0`` runs here.

    Never raises. Where the probe could not run, ``ok`` is true, ``facts`` is empty and ``why`` says why.
    """
    return run([argv0, b"-B", PROGRAM, b"look"], env, folder, limit_s)


def run(
    argv: "list[bytes]", env: "dict[bytes, bytes]", folder: "bytes", limit_s: "float", program: "bytes" = b""
) -> "dict[str, Any]":
    """Run ``argv`` in ``here``; it may begin with an engine's command line. ``program`` is sent on stdin."""
    import subprocess

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = subprocess.Popen(argv, cwd=folder, env=env, start_new_session=True, **pipes)  # type: ignore[call-overload]
    except OSError as error:
        if argv[0] == b"python" and isinstance(error, FileNotFoundError):
            return run([b"python3", *argv[1:]], env, folder, limit_s, program)  # as ``child`` starts scripts
        return unknown("the GPU test could not be started: %s" % error)
    try:
        output = process.communicate(program, timeout=limit_s)[0]
    except subprocess.TimeoutExpired:
        _end(process)
        return _judged_silence(limit_s)
    except (OSError, ValueError) as error:
        _end(process)
        return unknown("the output of the GPU test could not be read: %s" % error)
    return understood(output)


def understood(output: "bytes") -> "dict[str, Any]":
    """What was printed, judged."""
    lines = output.splitlines()
    marked = [line[len(MARK) :] for line in lines if line.startswith(MARK)]
    facts = probe_verdict.parsed(marked[-1]) if marked else None
    if facts is None:
        last = probe_verdict.plain(readable(lines[-1])) if lines else "no message"
        return unknown("the GPU test did not finish: %s" % last)
    return dict(probe_verdict.judge(facts), facts=facts)


def unknown(why: "str") -> "dict[str, Any]":
    return {"ok": True, "why": why, "fix": "", "facts": {}}


def told(attempt: "bytes") -> "dict[str, Any] | None":
    """The answer of the probe in the container of a run; None before it has run."""
    note = _read(layout.gpu_touch(layout.inside(attempt)))
    if note is None:
        return None
    if note.get("late") is True:
        return _judged_silence(LOOK_S, contained=True)
    output = note.get("said")
    answer = understood(output.encode("utf-8", "replace") if isinstance(output, str) else b"")
    facts = answer["facts"]
    return dict(probe_verdict.judge(facts, contained=True), facts=facts) if facts else answer


def lost(attempt: "bytes") -> "dict[str, Any] | None":
    """``node``, ``why`` and ``time`` (seconds since 1970) of a card that was taken from a run's container."""
    note = _read(layout.gpu_lost(layout.inside(attempt)))
    if note is None:
        return None
    when = note.get("time")
    is_time = isinstance(when, (int, float)) and not isinstance(when, bool) and 0 <= when < 1e11
    return {
        "node": probe_verdict.plain(note.get("node")),
        "why": probe_verdict.plain(note.get("why")),
        "time": when if is_time else time.time(),
    }


def _judged_silence(limit_s: "float", contained: "bool" = False) -> "dict[str, Any]":
    where = " in the container" if contained else ""
    why = "NVIDIA's driver did not respond%s within %g s" % (where, limit_s)
    return {
        "ok": False,
        "why": why,
        "fix": "run nvidia-smi there; if it also hangs, restart the machine",
        "facts": {},
    }


def _end(process: "subprocess.Popen[bytes]") -> "None":
    """One that hangs in the driver cannot be ended, and is not waited for."""
    import subprocess

    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_KILLED_S)
    except (OSError, subprocess.TimeoutExpired):
        process.returncode = -signal.SIGKILL  # as far as we care
    for pipe in (process.stdin, process.stdout):
        try:
            pipe.close()  # type: ignore[union-attr]
        except OSError:
            continue  # what it did not read is lost


def _read(path: "bytes") -> "dict[str, Any] | None":
    from ..container import monitor

    try:
        document = json.loads(readable(monitor.plain_content(path)))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
