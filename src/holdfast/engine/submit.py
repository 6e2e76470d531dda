"""From a request to a running script.

The order is the promise: content first, then the run's folder, synced, then the id is shown, then the start. A client
killed anywhere in between leaves either no id, or a run that the next command finds.
"""

from __future__ import annotations

import os
import sys
import time
from typing import NamedTuple

from holdfast import snapshot, targets
from holdfast._version import __version__
from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.channel import RunnerChannel
from holdfast.errors import ConfigError
from holdfast.model import Identity, Json, Plan
from holdfast.planning import make_plan
from holdfast.project import remember
from holdfast.store import runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model import Job, Project
    from holdfast.snapshot import Pending, Snapshot
    from holdfast.store.home import Home
    from holdfast.targets import Target


class Started(NamedTuple):
    """A run that is under way, and the conversation it was started in."""

    plan: Plan
    snapshot: Snapshot
    channel: RunnerChannel


def plan_only(project: Project, job: Job, target: Target) -> tuple[Plan, Snapshot]:
    """The plan that a submit would follow. Reads the project, writes nothing."""
    taken = snapshot.scan(project.root, cache=None, skip=_linked(job)).store(None)
    nobody = Identity("0" * 32, f"{project.name}_<milliseconds>", 0)
    return make_plan(job, project, nobody, taken.tree, target.runtime, target.share_base), taken


def submit(
    home: Home,
    project: Project,
    job: Job,
    target: Target,
    agree: Callable[[Pending], None],
    show_id: Callable[[Identity], None],
) -> Started:
    """Start the job. ``agree`` may refuse what is about to be stored; ``show_id`` is called when the run is on disk."""
    channel = RunnerChannel(target.host, target.runner_python, target.home, target.name)
    project = remember(project)
    taken = _take(home, project, job, agree)
    if os.path.relpath(job.script) and job.script in {left.path for left in taken.left_out}:
        raise ConfigError(
            f"{job.script} is left out of the run's copy by an ignore rule",
            where=project.root,
            hint="change the rule",
        )
    identity = runs.claim(home, project)
    plan = make_plan(job, project, identity, taken.tree, target.runtime, target.share_base)
    with home.lock(f"submit-{identity.uid}"):
        runs.create(home, identity, _request(project, job, target, taken))
        show_id(identity)
        if channel.hello()["store"] != home.id:
            _send_objects(home, channel, taken.tree)
        target.launcher.start(channel, plan, {"env": dict(job.env), "on_end": job.on_end})
    _forget_lock(home, identity.uid)
    return Started(plan, taken, channel)


def _take(home: Home, project: Project, job: Job, agree: Callable[[Pending], None]) -> Snapshot:
    pending = snapshot.scan(project.root, cache=home.stat_cache(project.id), skip=_linked(job))
    agree(pending)
    return pending.store(home.objects)


def _linked(job: Job) -> tuple[str, ...]:
    return tuple(link.name for link in job.links)


def _request(project: Project, job: Job, target: Target, taken: Snapshot) -> Json:
    return {
        "project": project.name,
        "project_id": project.id,
        "project_root": project.root,
        "script": job.script,
        "arguments": list(job.arguments),
        "config": job.config,
        "target": job.target,
        "kind": target.kind,
        "home": target.home,
        "tree": taken.tree,
        "files": taken.files,
        "bytes": taken.bytes,
        "created_ns": time.time_ns(),
        "parent_run_id": job.parent_run_id,
        "user": _user(),
        "client": os.uname().nodename if sys.platform != "win32" else os.environ.get("COMPUTERNAME", ""),
        "holdfast": __version__,
    }


def _user() -> str:
    return (
        os.environ.get("USER")
        or os.environ.get("LOGNAME")
        or os.environ.get("USERNAME")
        or str(getattr(os, "getuid", lambda: "")())
    )


def _send_objects(home: Home, channel: RunnerChannel, tree: str) -> None:
    """Send what the target lacks, each object in pieces; the target checks every hash before it believes one."""
    from holdfast.runner import objects, wire

    root = home.objects.encode("utf-8", "surrogateescape")
    while missing := channel.ask("need", tree=tree)["missing"]:
        for digest in missing if isinstance(missing, list) else ():
            data = objects.read(root, str(digest))
            for start in range(0, len(data) or 1, wire.MAX_PAYLOAD):
                piece = data[start : start + wire.MAX_PAYLOAD]
                channel.send_ahead("put", piece, digest=digest, last=start + len(piece) >= len(data))


def _forget_lock(home: Home, uid: str) -> None:
    os.unlink(os.path.join(home.path, "locks", f"submit-{uid}"))


def target_of(request: Json, home: str) -> Target:
    """The target a run was sent to, from what the run itself remembers: its .compute file may be gone by now."""
    root = request.get("home")
    compute = ComputeTarget(
        name=str(request.get("target")), type=str(request.get("kind")), root=str(root) if root else None
    )
    return targets.resolve(compute, home)
