"""``holdfast computetarget start|stop``"""

from __future__ import annotations

import os
import sys
import time

from holdfast import project as projects
from holdfast import target_lookup
from holdfast.cli.confirm import choose, confirm
from holdfast.cli.dialog import TerminalDialog
from holdfast.engine.connection import power
from holdfast.engine.submit.confirmation import look
from holdfast.errors import HoldfastError, UsageError
from holdfast.present.terminal import human_duration, show
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json, Project
    from holdfast.store.home import Home


def start(parsed: Parsed) -> int:
    home, root, compute = _target(parsed, on=True)
    dialog = TerminalDialog()
    power.bring_up(home, root, compute, lambda waited: dialog.starting(compute.name, waited))
    dialog.quiet()
    sys.stderr.write(f"{show(compute.name)} is on\n")
    return 0


def stop(parsed: Parsed) -> int:
    home, root, compute = _target(parsed, on=False)
    power.switch(home, root, compute, on=False)
    sys.stderr.write(f"{show(compute.name)} is stopping\n")
    return 0


def tell_idle(home: Home, project: Project, records: list[Json]) -> None:
    """A line for every machine that can be switched off and is on without a run."""
    places = target_lookup.folders(project.root, home.path)
    for name in target_lookup.targets(places):
        try:
            chosen = target_lookup.choose(places, "local", name)
            compute = chosen.compute
        except HoldfastError:
            continue
        if not (compute.stop_command or compute.stop_on_target):
            continue
        mine = [record for record in records if record.get("target") == name]
        if any(record.get("end_time_utc") is None for record in mine):
            continue
        if look(home.path, project.root, chosen) is not None or not power.is_up(home, compute):
            continue
        sys.stderr.write(f"{show(name)}: on, {_idle(mine)}\n")


def _idle(records: list[Json]) -> str:
    ends = [_seconds(str(record["end_time_utc"])) for record in records if record.get("end_time_utc")]
    return f"idle {human_duration(max(0.0, time.time() - max(ends)))}" if ends else "idle, no run of this project yet"


def _seconds(utc: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(utc).timestamp()


def _target(parsed: Parsed, *, on: bool) -> tuple[Home, str, ComputeTarget]:
    """The target, confirmed for use, and its command for being run."""
    name = parsed.text("name") or parsed.text("word")
    if not name:
        raise UsageError("no target given", hint="--name NAME")
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    chosen = choose(home.path, project.root, "local", name)
    confirm(home.path, project.root, chosen, (power.command_key(on=on),))
    return home, project.root, chosen.compute
