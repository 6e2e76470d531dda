"""``holdfast experiment submit``

Cheap checks come first. Then the runner is started, and the remaining modules are imported while its interpreter
starts.
"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import settings, target_lookup
from holdfast.cli.confirm import choose
from holdfast.cli.reach import open_line
from holdfast.engine.submit import job as request
from holdfast.environments import choice
from holdfast.errors import UnreachableError, UsageError
from holdfast.ledger import Stopwatch, since_start_ns
from holdfast.runner.store import layout
from holdfast.store.home import location, open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.reconnect import Line
    from holdfast.model import Job, Json, Project
    from holdfast.store.home import Home
    from holdfast.target_lookup import Chosen, Target


def submit(parsed: Parsed) -> int:
    project, job, chosen, target = _understand(parsed)
    if parsed.flag("dry_run"):
        from holdfast.cli.submission import print_plan

        return print_plan(parsed, project, job, target)
    stopwatch = Stopwatch(since_start_ns())
    home = open_home()
    stopwatch.lap("begin")
    line = _reach(home, project.root, target)
    stopwatch.lap("connect")
    stopwatch.waited = lambda: line.waited_ns
    if target.kind.in_container and not target.compute.dockerfile:
        from holdfast.engine.submit.container import question

        line.channel.foresee("image", **question(chosen.compute))
    if job.gpu.count:
        line.channel.foresee("probe")
    from holdfast.cli.submission import Submission

    return Submission(parsed, home, chosen, target, line, stopwatch).run(project, job)


def _reach(home: Home, root: str, target: Target) -> Line:
    """Open the connection; a target with a ``startCommand`` is switched on if it does not answer."""
    line = open_line(home, target)
    if not target.compute.start_command:
        return line
    try:
        line.channel.hello()
        return line
    except UnreachableError as error:
        from holdfast.cli.commands.power import bring_up
        from holdfast.engine.connection import power

        line.close()
        if not power.may_start(home, root, target.compute):
            hint = f"it has a startCommand; allow it with: holdfast trust {target.name}"
            raise UnreachableError(error.what, where=error.where, answer=error.answer, hint=hint) from error
        bring_up(home, root, target.compute)
        return open_line(home, target)


def _understand(parsed: Parsed) -> tuple[Project, Job, Chosen, Target]:
    folder = os.path.abspath(parsed.text("project") or os.getcwd())
    if not os.path.isdir(folder):
        raise UsageError("no such folder", where=folder)
    project = projects.find(folder)
    words = parsed.rest
    name = parsed.text("config")
    if words and words[0].endswith(".runconfig"):
        name, words = os.path.splitext(os.path.basename(words[0]))[0], ()
    home = location()
    said = settings.read(layout.settings(home))
    name = name or parsed.text("target") or said["defaultTarget"]
    chosen = _choose(parsed, home, project, name)
    target = target_lookup.resolve(chosen.compute, home)
    if chosen.warnings:
        from holdfast.amlconfig import render

        sys.stderr.write(render(chosen.warnings))
    asked = request.Asked(
        words=words,
        folder=folder,
        after_dashes=parsed.after_dashes,
        **_labels(parsed),
        env=(*parsed.texts("env"), *(word for word in parsed.texts("environment") if word not in choice.WORDS)),
        env_files=parsed.texts("env_file"),
        secrets=parsed.texts("secret"),
        links=parsed.texts("link"),
        timeout=parsed.text("timeout"),
        grace=parsed.text("grace"),
        notify=parsed.text("notify"),
        keep_work=parsed.flag("keep_work"),
        scalars=parsed.flag("scalars"),
        keep_limit=parsed.text("keep_limit"),
        retries=parsed.text("retries"),
        gpus=parsed.text("gpus"),
        require_gpu=parsed.flag("require_gpu"),
        wait_for_gpu=parsed.text("wait_for_gpu"),
    )
    job = request.make_job(asked, project, chosen.config, target.name, said, ask_secret)
    return project, *_with_environment(parsed, folder, project, job, chosen), target


def _labels(parsed: Parsed) -> dict[str, Any]:
    name, tags = parsed.text("name"), parsed.texts("tags")
    if name is None and not tags:
        return {}
    from holdfast import labels

    return {"name": None if name is None else labels.checked_name(name), "tags": labels.read_tags(tags)}


def _with_environment(parsed: Parsed, folder: str, project: Project, job: Job, chosen: Chosen) -> tuple[Job, Chosen]:
    """The job and target with the Python that is used, and one line on stderr that says which and why."""
    words = [word for word in parsed.texts("environment") if word in choice.WORDS]
    wanted = choice.Wanted(words[-1] if words else None, parsed.text("python"), folder)
    found = choice.choose(project.root, chosen.compute, chosen.config, job.source_file, wanted, os.environ)
    if found is None:
        return job, chosen
    from holdfast.present.terminal import show

    sys.stderr.write(f"{show(found.line)}\n")
    told: Json = {"origin": found.origin, "why": found.why}
    return job._replace(python=found.python, interpreter=told), chosen._replace(compute=found.compute)


def _choose(parsed: Parsed, home: str, project: Project, name: str) -> Chosen:
    """Confirm what the project requests before asking for secrets; not for ``--dry-run``."""
    if project.passed_over:
        _warn_of_owner(project.passed_over)
    target = parsed.text("target")
    if parsed.flag("dry_run"):
        return target_lookup.choose(target_lookup.folders(project.root, home), name, target)
    return choose(home, project.root, name, target)


def _warn_of_owner(folder: str) -> None:
    from shlex import quote

    from holdfast.present.terminal import show

    words = f"{folder} is a project of another user and is not used; allow it with: holdfast trust {quote(folder)}"
    sys.stderr.write(f"WARNING: {show(words)}\n")


def ask_secret(name: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError(
            f"--secret {name}: {name} is not set in this shell",
            hint=f"export {name}, or run at a terminal to be prompted",
        )
    from getpass import getpass

    return getpass(f"{name}: ")
