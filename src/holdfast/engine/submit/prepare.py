"""The first half of a submit: from what was asked for to a job, its target, and a connection.

What takes long to import is left to ``session``: it is imported while the runner's interpreter starts.
"""

from __future__ import annotations

import os

from holdfast import project as projects
from holdfast import settings, target_lookup
from holdfast.engine.submit import job as request
from holdfast.environments import choice
from holdfast.errors import ConfigError, UnreachableError, UsageError
from holdfast.record import Record
from holdfast.runner.store import layout
from holdfast.store.home import location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from holdfast.amlconfig.types import Finding
    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.submit.job import Asked
    from holdfast.environments.choice import Choice
    from holdfast.model import Job, Json, Project
    from holdfast.snapshot.snapshot import Pending
    from holdfast.store.home import Home
    from holdfast.target_lookup import Chosen, Target

    class Dialog(Protocol):
        """Who submits: answers questions, or refuses with an error, and is told what happens."""

        def confirm(self, home: str, root: str, chosen: Chosen) -> None:
            """Let the project in ``root`` use this target; what needs it is confirmed, or this raises."""

        def secret(self, name: str) -> str:
            """The value of a secret that is not in the environment."""

        def agree(self, pending: Pending) -> None:
            """Let this be stored."""

        def warn(self, message: str) -> None: ...

        def findings(self, findings: Sequence[Finding]) -> None: ...

        def environment(self, chosen: Choice) -> None: ...

        def starting(self, target: str, waited: float) -> None:
            """The machine is switched on and does not answer yet."""

        def storing(self, files: int, size: int) -> None: ...

        def sending(self, target: str, done: int, total: int) -> None: ...

        def preparing(self, progress: Json) -> None:
            """How far the lock of an environment, or an image, is."""

        def quiet(self) -> None:
            """Nothing is in progress now."""


LARGE = 1_000_000_000  # bytes of new files: often a data folder that was forgotten


class Order(Record):
    """What was asked for, as typed. ``environment`` is project, active or none; None leaves the choice to the rules."""

    asked: Asked
    config: str | None = None
    target: str | None = None
    environment: str | None = None
    python: str | None = None


class Prepared(Record):
    """``chosen`` has the target as this run uses it, ``target`` as it is reached."""

    project: Project
    job: Job
    chosen: Chosen
    target: Target

    def written_in(self, home: str) -> tuple[str, str]:
        """The files of target and run configuration; where there is none, where it would be."""
        root = self.project.root
        folders = target_lookup.folders(root, home)
        names = (f"{self.chosen.compute.name}.compute", f"{self.chosen.config.name}.runconfig")
        paths = [target_lookup.find(folders, name) or os.path.join(root, "aml_config", name) for name in names]
        return paths[0], paths[1]


def prepare(order: Order, dialog: Dialog, environ: Mapping[str, str]) -> Prepared:
    """Cheap checks only; nothing is written and no target is asked. ``environ`` says which environment is active."""
    folder, argv, name = order.asked.folder, order.asked.words, order.config
    if not os.path.isdir(folder):
        raise UsageError("no such folder", where=folder)
    project = projects.find(folder)
    projects.refuse_home(project.root)
    stem, ending = os.path.splitext(os.path.basename(argv[0])) if argv else ("", "")
    if ending == ".compute":
        import shlex

        script = " ".join(argv[1:2]) or "train.py"
        hint = f"holdfast submit -c {shlex.quote(stem)} {shlex.quote(script)}"
        raise UsageError("this file describes a target, it is no script", where=argv[0], hint=hint)
    if ending == ".runconfig":
        name, argv = stem, argv[1:]
    home = location()
    preset = settings.read(layout.settings(home))
    name = name or order.target or preset["defaultTarget"]
    if project.passed_over:
        dialog.warn(_passed_over(project.passed_over))
    chosen = target_lookup.choose(target_lookup.folders(project.root, home), name, order.target)
    dialog.confirm(home, project.root, chosen)  # before secrets are asked for
    target = target_lookup.resolve(chosen.compute, home)
    if chosen.warnings:
        dialog.findings(chosen.warnings)
    typed = order.asked._replace(words=argv)
    job = request.make_job(typed, project, chosen, target.name, preset, dialog.secret)
    if chosen.config.framework != "Python":
        from holdfast.engine.submit import spark_request

        spark = spark_request.requested(project.root, chosen, dialog.findings, job.source_file)
        job = job._replace(spark=spark)
    elif chosen.compute.kind.framework:
        what = f"{chosen.compute.name} is a Spark cluster, and the run configuration says Framework: Python"
        raise ConfigError(what, where=chosen.config_file, hint="write Framework: PySpark")
    return _with_environment(order, Prepared(project, job, chosen, target), dialog, environ)


def _with_environment(order: Order, prepared: Prepared, dialog: Dialog, environ: Mapping[str, str]) -> Prepared:
    """The job and target with the Python that is used."""
    job, chosen = prepared.job, prepared.chosen
    wanted = choice.Wanted(order.environment, order.python, order.asked.folder)
    root = prepared.project.root
    made = choice.choose(root, chosen.compute, chosen.config, job.source_file, wanted, environ)
    if made is None or made.origin in ("project", "target"):
        _warn_of_foreign(root, dialog)
    if made is None:
        by_files = choice.by_files(root, chosen.compute, chosen.config, job.source_file, environ)
        if by_files is not None:
            dialog.environment(by_files)
        return prepared
    dialog.environment(made)
    why: Json = {"origin": made.origin, "why": made.why}
    return prepared._replace(
        job=job._replace(python=made.python, interpreter=why), chosen=chosen._replace(compute=made.compute)
    )


def _warn_of_foreign(root: str, dialog: Dialog) -> None:
    """Name the files that would declare packages and are not used because of their owner."""
    paths = choice.foreign_files(root)
    if paths and not projects.is_confirmed(root):
        from shlex import quote

        for path in paths:
            dialog.warn(f"{path} belongs to another user and is not used; allow it with: holdfast trust {quote(root)}")


def _passed_over(folder: str) -> str:
    from shlex import quote

    if projects.holds_home(folder):
        files = " and ".join(path for path in projects.marks(folder) if path != folder)
        return f"{files} ignored: your home directory is not the project of the folders below it"
    return f"{folder} is a project of another user and is not used; allow it with: holdfast trust {quote(folder)}"


def reach(home: Home, prepared: Prepared, open_line: Callable[[], Line], dialog: Dialog) -> Line:
    """Open the connection; a target with a ``startCommand`` is switched on if it does not answer."""
    line = open_line()
    try:
        if prepared.target.compute.start_command and not _answers(line, home, prepared):
            from holdfast.engine.connection import power

            compute = prepared.target.compute
            line.close()
            power.bring_up(home, prepared.project.root, compute, lambda waited: dialog.starting(compute.name, waited))
            dialog.quiet()
            line = open_line()
        _ask_early(line, prepared)
    except BaseException:
        line.close()
        raise
    return line


def _answers(line: Line, home: Home, prepared: Prepared) -> bool:
    """Whether the target is there; raises where it is not and may not be switched on."""
    try:
        line.channel.hello()
    except UnreachableError as error:
        from holdfast.engine.connection import power

        if power.may_start(home, prepared.project.root, prepared.target.compute):
            return False
        from shlex import quote

        hint = f"it has a startCommand; allow it with: holdfast trust {quote(prepared.target.name)}"
        raise UnreachableError(error.what, where=error.where, answer=error.answer, hint=hint) from error
    return True


def _ask_early(line: Line, prepared: Prepared) -> None:
    """Requests that the target works on while this side goes on."""
    compute = prepared.chosen.compute
    # With nvidiaDocker the GPU is checked first, because the answer decides which image is fetched, if any.
    if prepared.target.kind.in_container and not compute.dockerfile and not compute.nvidia_docker:
        from holdfast.engine.submit.container import question

        line.channel.foresee("image", **question(compute))
    if prepared.job.gpu.count:
        line.channel.foresee("probe")
