"""``holdfast experiment submit``"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast import settings, targets
from holdfast.cli import ending
from holdfast.cli.output import emit
from holdfast.cli.show import LogWriter, watch
from holdfast.cli.terminal import human_bytes, is_tty, show
from holdfast.engine import request
from holdfast.engine import submit as engine
from holdfast.errors import UsageError
from holdfast.store.home import location, open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Identity, Job, Project
    from holdfast.snapshot import Pending
    from holdfast.targets import Target

_ASK_ABOVE = 1_000_000_000


def submit(parsed: Parsed) -> int:
    project, job, target = _understand(parsed)
    if parsed.flag("dry_run"):
        return _dry_run(parsed, project, job, target)
    home = open_home()
    as_json = parsed.text("output") is not None or parsed.text("query") is not None
    log = LogWriter(sys.stderr if as_json else sys.stdout)

    def show_id(identity: Identity) -> None:
        if not as_json:
            log.line(f"RunId: {identity.run_id}")

    started = engine.submit(home, project, job, target, lambda pending: _agree(parsed, pending), show_id)
    _warn(started.snapshot.warnings)
    if parsed.flag("no_wait"):
        started.channel.close()
        if as_json:
            emit(
                {"run_id": started.plan.run_id, "run_number": started.plan.run_number},
                fmt=parsed.text("output"),
                query=parsed.text("query"),
            )
        else:
            sys.stderr.write(f"started; holdfast logs -f -r {started.plan.run_number} watches it\n")
        return 0
    if not as_json:
        log.heading("Executing user inputs .....")
    watch(home, started.channel, started.plan.uid, started.plan.run_id, log)
    if not as_json:
        log.heading("Execution Details")
        log.line(f"RunId: {started.plan.run_id}")
    return ending.tell(home, started.plan.uid, parsed if as_json else None)


def _understand(parsed: Parsed) -> tuple[Project, Job, Target]:
    folder = os.path.abspath(parsed.text("project") or os.getcwd())
    if not os.path.isdir(folder):
        raise UsageError("there is no such folder", where=folder)
    project = projects.find(folder)
    words = parsed.rest
    name = parsed.text("config")
    if words and words[0].endswith(".runconfig"):
        name, words = os.path.splitext(os.path.basename(words[0]))[0], ()
    chosen = targets.choose(project.root, name or parsed.text("target") or "local", parsed.text("target"))
    home = location()
    target = targets.resolve(chosen.compute, home)
    asked = request.Asked(
        words=words,
        folder=folder,
        env=parsed.texts("env"),
        env_files=parsed.texts("env_file"),
        secrets=parsed.texts("secret"),
        links=parsed.texts("link"),
        timeout=parsed.text("timeout"),
        grace=parsed.text("grace"),
        notify=parsed.text("notify"),
        keep_work=parsed.flag("keep_work"),
    )
    on_end = settings.read(os.path.join(home, "settings.json"))["onEnd"]
    return project, request.make_job(asked, project, chosen.config, target.name, on_end, _ask_secret), target


def _dry_run(parsed: Parsed, project: Project, job: Job, target: Target) -> int:
    plan, taken = engine.plan_only(project, job, target)
    _warn(taken.warnings)
    emit(
        {**plan.to_json(), "files": taken.files, "bytes": taken.bytes},
        fmt=parsed.text("output") or "json",
        query=parsed.text("query"),
    )
    return 0


def _agree(parsed: Parsed, pending: Pending) -> None:
    """More than a gigabyte of new files is more often a forgotten data folder than a wish."""
    if pending.new_bytes <= _ASK_ABOVE or parsed.flag("yes"):
        return
    rows = "\n".join(f"{human_bytes(size):>10}  {show(path)}" for path, size in pending.largest())
    sys.stderr.write(
        f"{human_bytes(pending.new_bytes)} of new files would be copied into the run. The largest:\n{rows}\n"
    )
    if is_tty(sys.stdin) and is_tty(sys.stderr):
        sys.stderr.write("Copy them? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError("nothing was submitted", hint="name folders with --link, list them in .amlignore, or say --yes")


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        sys.stderr.write(f"WARNING: {show(warning)}\n")


def _ask_secret(name: str) -> str:
    if not is_tty(sys.stdin):
        raise UsageError(
            f"--secret {name}: this shell has no variable {name}", hint=f"export {name}, or answer at a terminal"
        )
    from getpass import getpass

    return getpass(f"{name}: ")
