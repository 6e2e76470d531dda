"""The output of ``holdfast reproduce``: environment, log and result of the new run."""

from __future__ import annotations

import os
import sys

from holdfast import answers, target_lookup
from holdfast.cli.dialog import TerminalDialog
from holdfast.cli.reach import open_line
from holdfast.cli.show import LogWriter, watch
from holdfast.engine.submit import environment as environments
from holdfast.engine.submit.reproduce import Again
from holdfast.environments import lock
from holdfast.environments.choice import is_managed
from holdfast.ledger import Stopwatch, since_start_ns
from holdfast.present import ending
from holdfast.store import package_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.submit.container import Container
    from holdfast.engine.submit.environment import Environment
    from holdfast.model import Identity, Job, Json, Project
    from holdfast.snapshot.snapshot import Pending
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Chosen


class Reproduction:
    """Messages go to stderr; stdout is for the verdict."""

    def __init__(
        self,
        home: Home,
        run: Run,
        plan: Json,
        chosen: Chosen,
        recorded: Json | None = None,
        *,
        allow_urls: bool = False,
    ) -> None:
        self._home = home
        self._run = run
        self._plan = plan
        self._chosen = chosen
        self._recorded = recorded
        self._allow_urls = allow_urls
        self._target = target_lookup.resolve(chosen.compute, home.path)
        self._log = LogWriter(sys.stderr)
        self._dialog = TerminalDialog()

    def run(self, project: Project, folder: str, job: Job) -> tuple[str, int]:
        """``folder`` has the run's files. The new run's uid and exit code, when it has ended."""
        stopwatch = Stopwatch(since_start_ns())
        with open_line(self._home, self._target) as line:
            stopwatch.lap("connect")
            environment, container = self._settle(project._replace(root=folder), job, line)
            stopwatch.lap("environment")
            submitter = Again(
                self._home, self._target, line, stopwatch, _agree, self._show_id, self._dialog.storing, self._on_upload
            )
            submitter.of = self._run
            plan, taken = submitter.submit(project, job, environment, container=container)
            self._dialog.quiet()
            for warning in taken.warnings:
                self._dialog.warn(warning)
            watch(self._home, line, plan.uid, plan.run_id, self._log, stopwatch, gpu=plan.gpu is not None, restart=True)
            return plan.uid, ending.tell(self._home, plan.uid, None, stopwatch)

    def _settle(self, project: Project, job: Job, line: Line) -> tuple[Environment | None, Container | None]:
        from holdfast.engine.submit import session

        compute, container = self._chosen.compute, None
        if compute.kind.in_container:
            container = session.settle_container(self._home, project, compute, line.channel, self._dialog)
            self._compare_image(container)
        if self._recorded is not None:
            return self._build_recorded(self._recorded, project, line, container), container
        if not self._is_managed(project.root):
            self._warn_of_python()
            return None, container
        requirements = environments.ask(project, self._chosen, job.source_file, line.channel, container)
        if requirements is None:
            return None, container
        stored_lock = self._lock()
        if stored_lock is None or stored_lock.platform != requirements.facts.platform:
            why = "its lock is not stored here" if stored_lock is None else f"its lock is for {stored_lock.platform}"
            self._dialog.warn(f"the environment differs from that of the run: {why}")
            where = (self._home, project, self._chosen, job.source_file, line.channel)
            return session.settle_environment(*where, self._dialog, container), container
        target_home = str(line.channel.hello()["home"])
        return environments.place(requirements, stored_lock, project, target_home), container

    def _is_managed(self, root: str) -> bool:
        """As it was in the run, where that was decided for the run and not by its files."""
        if isinstance(self._plan.get("interpreter"), dict):
            return isinstance(self._plan.get("environment"), dict)
        return is_managed(root, self._chosen.compute)

    def _lock(self) -> lock.Lock | None:
        from holdfast.passport.contents import environment_lock

        text = environment_lock(self._home, self._plan)
        return lock.from_text(text, "the environment's lock") if text else None

    def _build_recorded(
        self, recorded: Json, project: Project, line: Line, container: Container | None
    ) -> Environment | None:
        """The packages that the run had, in an environment of their own, for a Python of the same version."""
        from holdfast.engine.submit import recorded_environment, session

        declared = recorded_environment.declare(recorded, allow_urls=self._allow_urls)
        for name, why in declared.left_out:
            self._dialog.warn(f"{name} is not installed again: {why}")
        root = os.path.join(project.root, ".holdfast-recorded")
        os.makedirs(root, 0o700, exist_ok=True)
        with open(os.path.join(root, declared.file), "w", encoding="utf-8") as target:
            target.write(declared.text)
        compute = self._chosen.compute
        if container is None:
            compute = self._with_python(compute, recorded_environment.python_minor(recorded), line)
        config = self._chosen.config._replace(conda_dependencies_file=None)
        chosen = self._chosen._replace(compute=compute, config=config)
        where = (self._home, project._replace(root=root), chosen, "", line.channel)
        environment = session.settle_environment(*where, self._dialog, container)
        source = f"packages.json of {self._run.request.get('run_id')}"
        return environment._replace(source=source, why="--recorded-packages") if environment is not None else None

    def _with_python(self, compute: ComputeTarget, minor: str, line: Line) -> ComputeTarget:
        """The target with an interpreter of that version: its own, or the one on its PATH.

        The path in the record is never started: a target or an archive wrote it.
        """
        for location in (compute.python_location or "python", f"python{minor}") if minor else ():
            python = answers.table(line.channel.ask("facts", python=location), "facts", compute.name).get("python")
            if isinstance(python, dict) and str(python.get("version")).startswith(f"{minor}."):
                return compute._replace(python_location=location)
        if minor:
            self._dialog.warn(f"the run had Python {minor}, which {compute.name} does not have; its own Python is used")
        return compute

    def _warn_of_python(self) -> None:
        if isinstance(self._plan.get("environment"), dict):
            self._dialog.warn("the run had a managed environment, but this target uses its own Python")
        python = package_list.interpreter(self._run)
        if python is not None:
            number = self._run.request.get("run_number")
            command = f"holdfast reproduce -r {number} --recorded-packages"
            sys.stderr.write(f"{command} builds the packages that the run had ({python.get('packages')})\n")

    def _compare_image(self, container: Container) -> None:
        recorded = self._plan.get("container")
        then = recorded.get("image_id") if isinstance(recorded, dict) else None
        if then is not None and then != container.found.get("id"):
            self._dialog.warn(f"the image {container.image} differs from that of the run, which was {then}")

    def _on_upload(self, done: int, total: int) -> None:
        self._dialog.sending(self._target.name, done, total)

    def _show_id(self, identity: Identity) -> None:
        self._dialog.quiet()
        self._log.line(f"RunId: {identity.run_id}")


def _agree(pending: Pending) -> None:
    """Nothing new is stored."""
