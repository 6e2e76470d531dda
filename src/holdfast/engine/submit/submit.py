"""Submits a job: snapshot, run folder, start.

The order matters: the content is stored first, then the run's folder is written and synced, then the id is shown, then
the run is started. A client that is killed in between leaves either no id, or a run that the next command finds.
"""

from __future__ import annotations

import os
import time

from holdfast._version import __version__
from holdfast.engine.runs import follow
from holdfast.engine.runs import run_target as known
from holdfast.engine.submit import git_facts
from holdfast.errors import ConfigError, HoldfastError, LockedError, StoreError, UnreachableError
from holdfast.model import Identity, Json, Plan
from holdfast.planning import make_plan, plan_gpu
from holdfast.ports import Lacking, RuntimeParts
from holdfast.runner.machine import node, processes
from holdfast.runner.store import layout, object_removal
from holdfast.snapshot import ignore, snapshot
from holdfast.store import run_numbers, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.submit.container import Container
    from holdfast.engine.submit.data import SettledData
    from holdfast.engine.submit.environment import Environment
    from holdfast.engine.submit.preflight import Preflight, Tick
    from holdfast.ledger import Stopwatch
    from holdfast.model import Job, Project
    from holdfast.snapshot.snapshot import Pending, Snapshot
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target


_TRIES = 3  # a prune on the target may run at the same time


def plan_only(
    home: Home, project: Project, job: Job, target: Target, agree: Callable[[Pending], None]
) -> tuple[Plan, Snapshot]:
    """The plan that a submit would follow. Reads the project, writes nothing; ``agree`` may refuse to read so much."""
    taken = _only_hashed(home, project, job, agree)
    unnumbered = Identity("0" * 32, f"{project.name}_<milliseconds>", 0)
    plan = _plan(job, project, unnumbered, taken.tree, target, None)
    if job.data:
        from holdfast.engine.submit.data import SettledData

        plan = plan._replace(data=SettledData(home, target, job.data, None, None, store=False).plan_rows())
    return plan, taken


def _only_hashed(home: Home, project: Project, job: Job, agree: Callable[[Pending], None]) -> Snapshot:
    """What a snapshot would be; files that the last one has seen are not read again."""
    pending = snapshot.scan(project.root, cache=home.stat_cache(project.id), skip=_skipped(home, project, job))
    agree(pending)
    return pending.store(None)


class Submitter:
    """``agree`` may refuse what is about to be stored; ``show_id`` is called when the run is on disk for good.

    ``written_in`` are the files of target and run configuration: errors name the line to change there.
    """

    def __init__(
        self,
        home: Home,
        target: Target,
        line: Line,
        stopwatch: Stopwatch,
        agree: Callable[[Pending], None],
        show_id: Callable[[Identity], None],
        on_progress: Callable[[int, int], None],
        on_upload: Callable[[int, int], None],
        written_in: tuple[str, str] = ("", ""),
    ) -> None:
        self._home = home
        self._target = target
        self._line = line
        self._stopwatch = stopwatch
        self._written_in = written_in
        self._agree = agree
        self._show_id = show_id
        self._on_progress = on_progress
        self._on_upload = on_upload

    def submit(
        self,
        project: Project,
        job: Job,
        environment: Environment | None,
        *,
        container: Container | None = None,
        skip_unreadable: bool = False,
    ) -> tuple[Plan, Snapshot]:
        git = self._ask_git(project)
        with object_removal.Kept(os.fsencode(self._home.objects)) as kept:
            taken = self._take(project, job, skip_unreadable)
            return self._submit(project, job, environment, container, taken, git, kept)

    def _submit(
        self,
        project: Project,
        job: Job,
        environment: Environment | None,
        container: Container | None,
        taken: Snapshot,
        git: git_facts.Begun,
        kept: object_removal.Kept,
    ) -> tuple[Plan, Snapshot]:
        """``kept`` holds the objects of the snapshot until the run refers to them."""
        home, target = self._home, self._target
        self._stopwatch.lap("snapshot")
        if not self._is_here() or job.gpu.count:
            # A machine that does not answer, or cannot have it, gets no run.
            taken = taken._replace(
                warnings=(*taken.warnings, *self._preflight(project, taken).check(taken, environment, job))
            )
        data = self._settle_data(job)
        taken = taken._replace(warnings=(*taken.warnings, *data.remarks)) if data is not None else taken
        identity = run_numbers.claim(home, project)
        plan = _plan(job, project, identity, taken.tree, target, environment, container)
        plan = plan._replace(data=data.plan_rows()) if data is not None else plan
        with home.lock(f"submit-{identity.uid}"):
            try:
                request = {**_request(project, job, target, taken, home.id), "git": git.result()}
                request.update({"data": data.record_rows()} if data is not None else {})
                runs.create(home, identity, request)
                kept.release()
                git.keep(home.run(identity.uid))
                self._show_id(identity)
                self._start(plan, job, environment, {**request, **identity._asdict()}, data)
            except HoldfastError as error:
                self._close_as_failed(plan, error)
                raise
            finally:
                os.unlink(home.lock_file(f"submit-{identity.uid}"))
        return plan, taken

    def preflight(self, project: Project, job: Job, environment: Environment | None) -> list[Tick]:
        """What would be found before a start; nothing is stored, sent or started."""
        taken = _only_hashed(self._home, project, job, self._agree)
        return self._preflight().ticks(taken, environment, job)

    def _preflight(self, project: Project | None = None, taken: Snapshot | None = None) -> Preflight:
        """With a snapshot that is stored here it is known what the target lacks of it."""
        from holdfast.engine.submit.preflight import Preflight

        def lacking() -> tuple[int, int]:
            from holdfast.engine.submit.upload import Shipment

            shipment = Shipment(self._home, self._line.channel, project.id if project else "", self._on_upload)
            return shipment.lacking(taken.tree if taken else "")

        known = lacking if taken is not None else None
        return Preflight(self._target, self._line.channel, *self._written_in, is_here=self._is_here(), lacking=known)

    def _is_here(self) -> bool:
        """The target's store is our own: nothing is sent, and its disk was written to a moment ago."""
        return not self._target.kind.is_remote and self._target.home == self._home.path

    def _settle_data(self, job: Job) -> SettledData | None:
        """Hash the data of the run and send what the target lacks, before there is a run that waits for it."""
        if not job.data:
            return None
        from holdfast.engine.submit.data import SettledData

        data = SettledData(self._home, self._target, job.data, self._on_progress, self._on_upload)
        while True:
            try:
                data.send(self._line.channel)
                self._stopwatch.lap("ship")
                return data
            except UnreachableError as error:
                self._line.again(error)

    def _start(
        self, plan: Plan, job: Job, environment: Environment | None, request: Json, data: SettledData | None
    ) -> None:
        home, target = self._home, self._target
        if target.shims:
            from holdfast.engine.runs import path_shims

            path_shims.for_runs(home, target.shims)
        self._stopwatch.lap("other")
        secrets: Json = {"env": dict(job.env), "on_end": job.on_end}
        if environment is not None:
            secrets["environment"] = environment.to_build()
        while True:
            try:
                ticket = self._ship_and_start(plan, secrets, request, data)
                break
            except UnreachableError as error:
                self._line.again(error)
        try:
            runs.append_client(home, plan.uid, "ticket", ticket=ticket, spent=self._stopwatch.spent)
        except (OSError, LockedError) as error:
            what, hint = "the run has started, but this could not be recorded", f"holdfast logs -f -r {plan.run_id}"
            at, why = (error.where, error.what) if isinstance(error, LockedError) else (error.filename, error.strerror)
            raise StoreError(what, where=str(at), answer=str(why), hint=hint) from error

    def _close_as_failed(self, plan: Plan, error: HoldfastError) -> None:
        """Close a run that could not be started, so that no later start can begin it; one that did start goes on."""
        from holdfast.engine.runs import reconcile

        run = runs.read(self._home, plan.uid)
        if isinstance(error, UnreachableError) or any(line.get("type") == "ticket" for line in run.client):
            return  # it may have been started
        try:
            reconcile.give_up(self._home, self._target, run, "; ".join(filter(None, (error.what, error.answer))))
        except (HoldfastError, OSError):
            return  # the next command that reaches the target closes it

    def _ship_and_start(self, plan: Plan, secrets: Json, request: Json, data: SettledData | None) -> str:
        """Where the target keeps another store, the run and its content go there too."""
        channel, launcher = self._line.channel, self._target.launcher
        if channel.hello()["store"] == self._home.id:
            ticket = launcher.start(channel, plan.to_json(), secrets)
            self._stopwatch.lap("start")
            return ticket
        from holdfast.engine.submit.upload import Shipment

        secrets = {**secrets, "request": request}
        shipment = Shipment(self._home, channel, plan.project_id, self._on_upload)
        shipment.send_ahead(plan.tree)
        self._stopwatch.lap("ship")
        refused = ""
        for _ in range(_TRIES):
            follow.ask_early(channel, plan.uid)
            try:
                ticket = launcher.start(channel, plan.to_json(), secrets)
                self._stopwatch.lap("start")
                shipment.remember(plan.tree)
                return ticket
            except Lacking as error:
                refused = error.refused
                if refused:
                    break
            shipment.send_missing(plan.tree)
            if data is not None:
                data.send(channel, again=True)
            self._stopwatch.lap("ship")
        what, hint = "the target could not store the upload", "check whether its disk is full or its store was cleaned"
        raise StoreError(
            what, where=self._target.name, answer=refused or "uploaded objects are missing on the target", hint=hint
        )

    def _ask_git(self, project: Project) -> git_facts.Begun:
        return git_facts.Begun(project.root, layout.cache(self._home.path))

    def _take(self, project: Project, job: Job, skip_unreadable: bool) -> Snapshot:
        cache, skipped = self._home.stat_cache(project.id), _skipped(self._home, project, job)
        pending = snapshot.scan(project.root, cache=cache, skip=skipped, skip_unreadable=skip_unreadable)
        self._agree(pending)
        taken = pending.store(self._home.objects, self._on_progress)
        if job.files:
            taken = snapshot.with_files(self._home.objects, taken, job.files)
            if job.script in job.files:
                return taken
        file = job.source_file
        rule = ignore.explain(project.root, file) if taken.left_out and file else None
        if rule is not None:
            hint = "change that rule, or include the script with !PATTERN in .amlignore"
            raise ConfigError(f"{file} is excluded from the run by {rule}", where=project.root, hint=hint)
        return taken


def _plan(
    job: Job,
    project: Project,
    identity: Identity,
    tree: str,
    target: Target,
    environment: Environment | None,
    container: Container | None = None,
) -> Plan:
    python = environment.python if environment is not None else container.python if container is not None else None
    gpu = plan_gpu(job.gpu, handed_in=target.kind.in_container and bool(target.compute.nvidia_docker))
    container_plan = _container_section(target, container, python, gpu is not None and gpu["count"] != 0)
    kept = environment.in_plan() if environment is not None else None
    interpreter = python or job.python or target.compute.python_location or "python"
    parts = RuntimeParts(interpreter, target.compute.to_settings(), kept, container_plan, gpu, job.spark)
    return make_plan(
        job,
        project,
        identity,
        tree,
        runtime=target.runtime(parts),
        share_base=target.share_base,
        shims=target.shims,
        environment=kept,
        idle=_idle(target),
        container=container_plan,
        gpu=gpu,
        python=interpreter,
    )


def _container_section(target: Target, container: Container | None, python: str | None, gpu: bool) -> Json | None:
    if container is None:
        return None
    from holdfast.engine.submit.container import plan_section

    if python is None:
        hint = "choose an image with Python, name the interpreter as pythonLocation, or declare an environment with one"
        raise ConfigError(f"the image {container.image} has no Python", where=f"{target.name}.compute", hint=hint)
    return plan_section(target.compute, container.image, container.engine, container.found, python, gpu=gpu)


def _idle(target: Target) -> Json | None:
    command, minutes = target.compute.stop_on_target, target.compute.stop_when_idle_minutes
    return {"command": command, "minutes": minutes or 30} if command else None


def _skipped(home: Home, project: Project, job: Job) -> list[str]:
    """What is no part of the snapshot: links, data, and a store inside the project, which may be half made as yet."""
    skipped = [link.name for link in job.links] + [data.link for data in job.data]
    if home.path.startswith(os.path.join(project.root, "")):
        skipped.append(os.path.relpath(home.path, project.root))
    return skipped


def _request(project: Project, job: Job, target: Target, taken: Snapshot, store: str) -> Json:
    return {
        "project": project.name,
        "project_id": project.id,
        "project_root": project.root,
        "script": job.script,
        "arguments": list(job.arguments),
        **({"command": list(job.command), "source": job.source_file} if job.command else {}),
        **({"name": job.name} if job.name else {}),
        **({"tags": job.tags} if job.tags else {}),
        "config": job.config,
        "target": job.target,
        **known.remembered(target),
        "tree": taken.tree,
        "files": taken.files,
        "bytes": taken.bytes,
        "created_ns": time.time_ns(),
        "parent_run_id": job.parent_run_id,
        **({"reproduces": job.reproduces} if job.reproduces else {}),
        "fetch_outputs": job.fetch_outputs,
        "max_log": job.max_log,
        "retries": job.retries,
        "user": _user(),
        "client_store": store,
        "client": processes.host_name(),
        "node": node.mark(),
        "holdfast": __version__,
    }


def _user() -> str:
    return (
        os.environ.get("USER")
        or os.environ.get("LOGNAME")
        or os.environ.get("USERNAME")
        or str(getattr(os, "getuid", lambda: "")())
    )
