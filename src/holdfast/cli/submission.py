"""The output of ``holdfast submit``: run id, log, result."""

from __future__ import annotations

import os
import sys

from holdfast import target_lookup
from holdfast.cli.confirm import agree_to_store
from holdfast.cli.show import LogWriter, watch
from holdfast.engine.submit import submit as engine
from holdfast.errors import BuildNeededError, ConfigError, StoreError, UnreachableError
from holdfast.present import ending
from holdfast.present.output import emit
from holdfast.present.terminal import Progress, human_bytes, show
from holdfast.project import remember
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.submit.container import Container
    from holdfast.engine.submit.environment import Environment
    from holdfast.ledger import Stopwatch
    from holdfast.model import Identity, Job, Plan, Project
    from holdfast.snapshot.snapshot import Snapshot
    from holdfast.store.home import Home
    from holdfast.target_lookup import Chosen, Target

_LINK = "use --link to link a folder instead of copying it, or --yes"


class Submission:
    """With -o or --query stdout holds the run's record and nothing else; the log then goes to stderr."""

    def __init__(
        self, parsed: Parsed, home: Home, chosen: Chosen, target: Target, line: Line, stopwatch: Stopwatch
    ) -> None:
        self._parsed = parsed
        self._home = home
        self._chosen = chosen
        self._target = target
        self._line = line
        self._stopwatch = stopwatch
        self._for_machines = parsed.text("output") is not None or parsed.text("query") is not None
        self._log = LogWriter(sys.stderr if self._for_machines else sys.stdout)
        self._unsolved: BuildNeededError | None = None

    def run(self, project: Project, job: Job) -> int:
        project = remember(project)
        self._stopwatch.lap("begin")
        try:
            environment, container = self._settle(project, job)
            self._stopwatch.lap("environment")
            if self._parsed.flag("preflight"):
                return self._tell_ticks(project, job, environment, container)
            plan, taken = self._submit(project, job, environment, container)
        except (UnreachableError, StoreError) as error:
            if self._line.channel.has_answered:
                raise
            from holdfast.engine.submit import preflight

            raise preflight.mended(error, self._target, self._written_in(project)[0]) from error
        for warning in taken.warnings:
            sys.stderr.write(f"WARNING: {show(warning)}\n")
        if self._parsed.flag("verbose"):
            self._tell_more(project, plan, taken)
        if self._parsed.flag("no_wait"):
            return self._leave(plan)
        self._say("Executing user inputs .....")
        gpu = plan.gpu is not None
        watch(self._home, self._line, plan.uid, plan.run_id, self._log, self._stopwatch, gpu=gpu, restart=True)
        self._say("Execution Details")
        if not self._for_machines:
            self._log.line(f"RunId: {plan.run_id}")
        return ending.tell(self._home, plan.uid, self._emit if self._for_machines else None, self._stopwatch)

    def _submit(
        self, project: Project, job: Job, environment: Environment | None, container: Container | None
    ) -> tuple[Plan, Snapshot]:
        with Progress(sys.stderr) as progress:
            skip = self._parsed.flag("skip_unreadable")
            submitter = self._submitter(project, progress)
            return submitter.submit(project, job, environment, container=container, skip_unreadable=skip)

    def _submitter(self, project: Project, progress: Progress) -> engine.Submitter:
        def on_progress(files: int, size: int) -> None:
            progress.update(f"storing the project: {files} files, {human_bytes(size)}")

        def on_upload(done: int, total: int) -> None:
            progress.update(f"sending to {self._target.name}: {human_bytes(done)} of {human_bytes(total)}")

        def on_id(identity: Identity) -> None:
            progress.clear()
            self._show_id(identity)

        return engine.Submitter(
            self._home,
            self._target,
            self._line,
            self._stopwatch,
            lambda pending: agree_to_store(self._parsed, pending, _LINK),
            on_id,
            on_progress,
            on_upload,
            self._written_in(project),
        )

    def _written_in(self, project: Project) -> tuple[str, str]:
        """The files of target and run configuration; where there is none, where it would be."""
        places = target_lookup.folders(project.root, self._home.path)
        names = (f"{self._chosen.compute.name}.compute", f"{self._chosen.config.name}.runconfig")
        found = [target_lookup.find(places, name) or os.path.join(project.root, "aml_config", name) for name in names]
        return found[0], found[1]

    def _tell_ticks(
        self, project: Project, job: Job, environment: Environment | None, container: Container | None
    ) -> int:
        from holdfast.cli.ticks import tell
        from holdfast.engine.submit.preflight import OK, WARNING, Tick

        with Progress(sys.stderr) as progress:
            ticks = self._submitter(project, progress).preflight(project, job, environment)
        if container is not None:
            ticks.append(Tick("engine", OK, f"{container.engine['name']}, with the image {container.image}"))
        if environment is not None:
            ticks.append(Tick("packages", OK, f"environment {environment.key} from {environment.source}"))
        if self._unsolved is not None:
            words = f"determined at submission: {self._unsolved}"
            ticks.append(Tick("packages", WARNING, words, self._unsolved.hint))
        self._line.close()
        return tell(ticks, self._parsed)

    def _settle(self, project: Project, job: Job) -> tuple[Environment | None, Container | None]:
        """What the script will run in; most runs of the machine's own Python need not ask."""
        compute, channel, container = self._chosen.compute, self._line.channel, None
        if compute.kind.in_container:
            from holdfast.cli.environments import settle_container

            try:
                container = settle_container(self._home, project, compute, channel)
            except ConfigError:
                self._target.host.sever()  # an open session keeps the rights of its login; a new group needs a new one
                raise
        managed = not compute.user_managed_environment if container else compute.user_managed_environment is False
        if not managed:
            return None, container
        from holdfast.cli.environments import settle

        looking = self._parsed.flag("preflight")
        try:
            place = (self._home, project, self._chosen, job.source_file, channel, container)
            return settle(*place, may_build=not looking), container
        except BuildNeededError as error:
            if not looking:
                raise
            self._unsolved = error
            return None, container
        except ConfigError as error:
            if (job.interpreter or {}).get("origin") == "project":
                error.hint = f"{error.hint}\nto run without the declared packages: --env none".lstrip()
            raise

    def _tell_more(self, project: Project, plan: Plan, taken: Snapshot) -> None:
        stored = (
            f"{taken.files} files ({human_bytes(taken.bytes)}), {taken.new_files} new ({human_bytes(taken.new_bytes)})"
        )
        facts = {
            "project": project.root,
            "snapshot": f"{stored}, {len(taken.left_out)} excluded",
            "target": f"{plan.target} ({self._target.kind.name})",
            "command": " ".join(plan.argv),
            "folder": self._home.run(plan.uid),
        }
        for name, value in facts.items():
            sys.stderr.write(f"{name:<9} {show(value)}\n")

    def _leave(self, plan: Plan) -> int:
        self._line.close()
        if self._for_machines:
            found = {"run_id": plan.run_id, "run_number": plan.run_number, "uid": plan.uid}
            self._emit(found)
        else:
            sys.stderr.write(f"submitted; holdfast logs -f -r {plan.run_number} follows its log\n")
        return 0

    def _emit(self, value: object) -> None:
        emit(value, fmt=self._parsed.text("output"), query=self._parsed.text("query"))

    def _show_id(self, identity: Identity) -> None:
        if not self._for_machines:
            self._log.line(f"RunId: {identity.run_id}")

    def _say(self, heading: str) -> None:
        if not self._for_machines:
            self._log.heading(heading)


def print_plan(parsed: Parsed, project: Project, job: Job, target: Target) -> int:
    home = open_home(create=False)
    plan, taken = engine.plan_only(home, project, job, target, lambda pending: agree_to_store(parsed, pending, _LINK))
    for warning in taken.warnings:
        sys.stderr.write(f"WARNING: {show(warning)}\n")
    found = {**plan.to_json(), "files": taken.files, "bytes": taken.bytes}
    emit(found, fmt=parsed.text("output") or "json", query=parsed.text("query"))
    return 0
