"""A shell on the machine of a run, in the run's folder, whatever shell that person has there."""

from __future__ import annotations

import os

from holdfast.engine.channel import UNPACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run
    from holdfast.targets import Target

# Python, because every target has it and every shell would want its own words. Python 3.6.
_PROGRAM = """
import os, pwd, sys
store, places = %r, %r
for place in places:
    try:
        os.chdir(os.path.join(os.path.expanduser(store), place))
        break
    except OSError:
        continue
else:
    if places:
        sys.exit("holdfast: this run is not on this machine any more")
if places and place != places[0]:
    sys.stderr.write("holdfast: its work folder is gone; this is what it left\\n")
    sys.stderr.flush()
shell = os.environ.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
os.execv(shell, ["-" + os.path.basename(shell)])
"""


def words(target: Target, run: Run | None) -> tuple[str, ...]:
    """The words of a command, to be run here at the terminal, that opens a shell there."""
    import binascii

    store = os.fsencode(target.home or os.path.join("~", ".holdfast"))
    attempt = os.fsencode(os.path.join("runs", run.uid, run.attempt_name)) if run is not None else b""
    places = [os.path.join(attempt, b"work"), attempt] if attempt else []
    program = binascii.b2a_base64((_PROGRAM % (store, places)).encode("ascii"), newline=False).decode("ascii")
    return target.host.at_terminal((target.runner_python, "-I", "-S", "-c", UNPACK, program))
