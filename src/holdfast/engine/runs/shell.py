"""Opens the user's login shell on the machine of a run, in the run's folder."""

from __future__ import annotations

import os

from holdfast import lifecycle
from holdfast.engine.connection import bundle
from holdfast.runner.container import argv
from holdfast.runner.decoding import lossless
from holdfast.runner.store import layout
from holdfast.store.runs import read_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Target

# Of the image's shells, the one that people like best.
_SHELL = "if command -v bash >/dev/null; then exec bash; else exec sh; fi"


def words(target: Target, run: Run | None) -> tuple[str, ...]:
    """The words of a command, to be run here at the terminal, that opens a shell there."""
    store = os.fsencode(target.home or os.path.join("~", ".holdfast"))
    attempt = os.fsencode(os.path.join(layout.run("", run.uid), run.attempt_name)) if run is not None else b""
    folders = [layout.work(attempt), layout.old_work(attempt), attempt] if attempt else []
    parameters: Json = {"store": lossless(store), "folders": list(map(lossless, folders)), "command": _joined(run)}
    return target.host.at_terminal((target.runner_python, *bundle.standalone("runner/run/login_shell.py", parameters)))


def _joined(run: Run | None) -> list[str]:
    """The command that opens a shell in the container of a running run; empty for any other."""
    plan = read_plan(run) if run is not None and lifecycle.state_of(run.events) not in lifecycle.FINAL else None
    container = plan.get("container") if plan else None
    if run is None or not isinstance(container, dict) or "program" not in container:
        return []
    name = argv.name_of(run.uid, run.attempt_name)
    return [str(container["program"]), "exec", name, "/bin/sh", "-c", _SHELL]
