"""Makes the plan of a run, a pure function: the same plan is printed, sent and stored."""

from __future__ import annotations

import os

from holdfast.errors import ConfigError, UsageError
from holdfast.model import Plan
from holdfast.quantities import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.model import GpuWish, Identity, Job, Json, Project
    from holdfast.ports import Runtime


def make_plan(
    job: Job,
    project: Project,
    identity: Identity,
    tree: str,
    *,
    runtime: Runtime,
    share_base: str | None,
    shims: str | None,
    **parts: Any,
) -> Plan:
    """``shims``: programs found first on the PATH. ``parts``: python, environment, container, gpu, idle and data."""
    return Plan(
        uid=identity.uid,
        run_id=identity.run_id,
        run_number=identity.run_number,
        attempt="a1",
        project=project.name,
        project_id=project.id,
        target=job.target,
        script=job.script,
        argv=_argv(job, runtime),
        tree=tree,
        env=tuple(sorted(job.env)),
        links=job.links,
        share=share_directory(share_base, project),
        timeout=job.timeout_s,
        timeout_text=duration_text(job.timeout_s) if job.timeout_s else "",
        grace=job.grace_s,
        max_log=job.max_log,
        keep_work=job.keep_work,
        shims=shims,
        scalars=job.scalars,
        keep=job.keep,
        capture=job.capture,
        interpreter=job.interpreter,
        spark=job.spark,
        **parts,
    )


def _argv(job: Job, runtime: Runtime) -> tuple[str, ...]:
    return runtime.command((*job.command, *job.arguments)) if job.command else runtime.argv(job.script, job.arguments)


def plan_gpu(wanted: GpuWish, *, handed_in: bool) -> Json | None:
    """What a plan says of GPUs. ``handed_in``: the target's containers have all of them (``nvidiaDocker``).

    Such a container was never alone on its cards, so that without a number it shares them.
    """
    count, shared = wanted.count, wanted.shared
    if count is None and handed_in:
        count, shared = "all", True
    if count is None and not wanted.require:
        return None
    return {
        "count": count,
        "memory": wanted.memory,
        "name": wanted.name,
        "shared": shared,
        "wait_s": wanted.wait_s,
        "wait_text": duration_text(wanted.wait_s) if wanted.wait_s else "",
        "require": wanted.require,
        "grace_s": wanted.grace_s,
        "grace_text": duration_text(wanted.grace_s),
    }


def share_directory(base: str | None, project: Project) -> str | None:
    """<base>/<account>/<workspace>/<project>, as the original laid it out; the runner expands ``~``
    and adds the trailing separator."""
    if not base:
        return None
    return os.path.join(base, project.account, project.workspace, project.name)


def script_path(root: str, folder: str, named: str) -> str:
    """The script relative to the project, whichever way its path was written and from whichever folder below."""
    candidates = [
        os.path.join(folder, named),
        os.path.join(folder, named.replace("\\", "/")),
        os.path.join(root, named.replace("\\", "/")),
    ]
    for path in candidates:
        if os.path.isfile(path):
            inside = os.path.relpath(os.path.abspath(path), root)
            if inside.startswith(os.pardir + os.sep):
                hint = "submit it from its own folder, or copy it into the project"
                raise UsageError(f"{named} is outside the project", where=root, hint=hint)
            real = os.path.realpath(path)
            if os.path.commonpath((real, os.path.realpath(root))) != os.path.realpath(root):
                what = f"the script {named} is, or is below, a link that leads out of the project"
                raise ConfigError(what, where=path, answer=real, hint="copy the file into the project")
            return inside
    for path in candidates:
        if os.path.lexists(path) and not os.path.isdir(path):
            is_special = os.path.exists(path)
            reason = "is not a regular file" if is_special else "is a link to a file that does not exist"
            raise ConfigError(f"the script {named} {reason}", where=path, hint="give a Python file of the project")
    raise UsageError(f"no such script: {named!r}", where=folder, hint=_near(folder, named))


def seconds(text: str, where: str) -> float:
    """``4h``, ``90m``, ``1h30m``, ``2d``, or plain seconds."""
    duration = parse_duration(text)
    if not duration:
        raise ConfigError(f"{text!r} is not a duration", where=where, hint="for example 4h, 90m, 1h30m or 45s")
    return duration


def duration_text(length: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if length >= size and length % size == 0:
            return f"{int(length // size)}{unit}"
    return f"{length:g}s"


_SCRIPTS = (".py", ".sh", ".ipynb")


def near_scripts(folder: str, named: str) -> list[str]:
    """The script here that was probably meant, if any: ``trian``, ``train``."""
    from difflib import get_close_matches

    base = os.path.basename(named)
    names = _scripts(folder, named)
    close = [f"{base}.py"] if f"{base}.py" in names else get_close_matches(base, names, 2)
    return sorted(close, key=lambda name: not name.endswith(".py"))[:1]


def _scripts(folder: str, named: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(_SCRIPTS) and name != named]


def _near(folder: str, named: str) -> str:
    close, names = near_scripts(folder, named), _scripts(folder, named)
    if close:
        command = "" if set(named) & set("./\\") else f" To run a program of that name: -- {named}"
        return f"did you mean {close[0]}?{command}"
    return f"scripts here: {', '.join(sorted(names)[:8])}" if names else "there are no scripts here"
