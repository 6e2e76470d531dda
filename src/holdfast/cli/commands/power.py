"""``holdfast computetarget trust|start|stop``"""

from __future__ import annotations

import os
import sys
import time

from holdfast import project as projects
from holdfast import targets
from holdfast.cli.terminal import Progress, human_duration, show
from holdfast.engine import power
from holdfast.errors import HoldfastError, UsageError
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json, Project
    from holdfast.store.home import Home


def trust(parsed: Parsed) -> int:
    home, compute = _target(parsed)
    for command in power.trust(home, compute):
        sys.stderr.write(f"trusted: {show(command)}\n")
    return 0


def start(parsed: Parsed) -> int:
    home, compute = _target(parsed)
    bring_up(home, compute)
    sys.stderr.write(f"{compute.name} is on\n")
    return 0


def stop(parsed: Parsed) -> int:
    home, compute = _target(parsed)
    power.switch(home, compute, on=False)
    sys.stderr.write(f"{compute.name} was told to stop\n")
    return 0


def bring_up(home: Home, compute: ComputeTarget) -> None:
    """Switch a machine on and wait for its answer."""
    with Progress(sys.stderr) as progress:
        progress.update(f"starting {compute.name}")
        power.switch(home, compute, on=True)

        def tell(waited: float) -> None:
            progress.update(f"starting {compute.name}: no answer yet, {human_duration(waited)}")

        power.wait_until_up(home, compute, tell)


def tell_idle(home: Home, project: Project, records: list[Json]) -> None:
    """A line for every machine that can be switched off and is on without a run."""
    places = targets.folders(project.root, home.path)
    for name in targets.targets(places):
        try:
            compute = targets.choose(places, "local", name).compute
        except HoldfastError:
            continue
        if not (compute.stop_command or compute.stop_on_target):
            continue
        mine = [record for record in records if record.get("target") == name]
        if any(record.get("end_time_utc") is None for record in mine) or not power.is_up(home, compute):
            continue
        sys.stderr.write(f"{name}: on, {_idle(mine)}\n")


def _idle(records: list[Json]) -> str:
    ends = [_seconds(str(record["end_time_utc"])) for record in records if record.get("end_time_utc")]
    return f"idle {human_duration(max(0.0, time.time() - max(ends)))}" if ends else "idle, no run of this project yet"


def _seconds(utc: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(utc).timestamp()


def _target(parsed: Parsed) -> tuple[Home, ComputeTarget]:
    name = parsed.text("name") or parsed.text("word")
    if not name:
        raise UsageError("no target was named", hint="--name NAME")
    home = open_home()
    project = projects.find(parsed.text("project") or os.getcwd())
    return home, targets.choose(targets.folders(project.root, home.path), "local", name).compute
