"""Opens the user's login shell on the machine of a run, in the run's folder."""

from __future__ import annotations

import os

from holdfast import lifecycle
from holdfast.engine.connection.channel import UNPACK
from holdfast.runner.container import argv
from holdfast.runner.store import layout
from holdfast.store.runs import read_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.runs import Run
    from holdfast.targets import Target

# Python 3.6, because every target has it and shells differ in syntax.
_PROGRAM = """
import os, pwd, sys
store, places, joined = %r, %r, %r
if joined:
    folder = os.path.join(os.path.expanduser(store), places[0])
    words = joined[:2] + ["--tty"] * os.isatty(0) + ["--interactive", "--workdir", folder] + joined[2:]
    os.execvp(words[0], words)
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


# Of the image's shells, the one that people like best.
_SHELL = "if command -v bash >/dev/null; then exec bash; else exec sh; fi"


def words(target: Target, run: Run | None) -> tuple[str, ...]:
    """The words of a command, to be run here at the terminal, that opens a shell there."""
    import binascii

    store = os.fsencode(target.home or os.path.join("~", ".holdfast"))
    attempt = os.fsencode(os.path.join(layout.run("", run.uid), run.attempt_name)) if run is not None else b""
    places = [layout.work(attempt), attempt] if attempt else []
    program = binascii.b2a_base64((_PROGRAM % (store, places, _joined(run))).encode("ascii"), newline=False).decode(
        "ascii"
    )
    return target.host.at_terminal((target.runner_python, "-I", "-S", "-c", UNPACK, program))


def _joined(run: Run | None) -> list[str]:
    """The command that opens a shell in the container of a running run; empty for any other."""
    plan = read_plan(run) if run is not None and lifecycle.state_of(run.events) not in lifecycle.FINAL else None
    wish = plan.get("container") if plan else None
    if run is None or not isinstance(wish, dict):
        return []
    name = argv.name_of(run.uid, run.attempt_name)
    return [str(wish["program"]), "exec", name, "/bin/sh", "-c", _SHELL]
