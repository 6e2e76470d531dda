"""The second half of a submit: environment, container, snapshot, start."""

from __future__ import annotations

from holdfast.engine.submit.submit import Submitter
from holdfast.errors import BuildNeededError, ConfigError, NoGpuError, StoreError, UnreachableError
from holdfast.project import remember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.engine.connection.reconnect import Line
    from holdfast.engine.submit.container import Container
    from holdfast.engine.submit.environment import Environment
    from holdfast.engine.submit.preflight import Tick
    from holdfast.engine.submit.prepare import Dialog, Prepared
    from holdfast.ledger import Stopwatch
    from holdfast.model import Identity, Plan, Project
    from holdfast.snapshot.snapshot import Snapshot
    from holdfast.store.home import Home
    from holdfast.target_lookup import Chosen


class Session:
    """One submit over one connection. ``show_id`` is called when the run is on disk for good."""

    def __init__(
        self,
        home: Home,
        prepared: Prepared,
        line: Line,
        stopwatch: Stopwatch,
        dialog: Dialog,
        show_id: Callable[[Identity], None],
    ) -> None:
        self.project = remember(prepared.project)
        self._home = home
        self._found = prepared
        self._line = line
        self._stopwatch = stopwatch
        self._dialog = dialog
        self._show_id = show_id
        self._written_in = prepared.written_in(home.path)
        stopwatch.lap("begin")

    def run(self, *, skip_unreadable: bool = False) -> tuple[Plan, Snapshot]:
        try:
            self._check_cluster()
            environment, container = self._settle()
            self._stopwatch.lap("environment")
            return self._submitter().submit(
                self.project, self._found.job, environment, container=container, skip_unreadable=skip_unreadable
            )
        except (UnreachableError, StoreError) as error:
            self._raise_mended(error)
            raise
        finally:
            self._dialog.quiet()

    def _check_cluster(self) -> None:
        if self._found.chosen.compute.kind.framework:
            from holdfast.engine.machines import spark_cluster

            spark_cluster.check(self._found.chosen.compute)

    def preflight(self) -> list[Tick]:
        """What would be found before a start; nothing is stored, sent, built or started."""
        try:
            return self._ticks()
        except (UnreachableError, StoreError) as error:
            self._raise_mended(error)
            raise
        finally:
            self._dialog.quiet()
            self._line.close()

    def _ticks(self) -> list[Tick]:
        from holdfast.engine.submit.preflight import FAILED, OK, WARNING, Tick

        unsolved: BuildNeededError | None = None
        try:
            environment, container = None, self._settle_container()
        except NoGpuError as error:
            ticks = self._submitter().preflight(self.project, self._found.job, None)
            return [*ticks, Tick("gpus", FAILED, error.what, error.hint, error.exit_code)]
        try:
            environment = self._settle_environment(container, may_build=False)
        except BuildNeededError as error:
            unsolved = error
        ticks = self._submitter().preflight(self.project, self._found.job, environment)
        if container is not None:
            ticks.append(Tick("engine", OK, f"{container.engine['name']}, with the image {container.image}"))
        if environment is not None:
            ticks.append(Tick("packages", OK, f"environment {environment.key} from {environment.source}"))
        if unsolved is not None:
            ticks.append(Tick("packages", WARNING, f"determined at submission: {unsolved}", unsolved.hint))
        return ticks

    def _raise_mended(self, error: UnreachableError | StoreError) -> None:
        """For a target that never answered: the error with what a second look at it says."""
        if not self._line.channel.has_answered:
            from holdfast.engine.submit import preflight

            raise preflight.mended(error, self._found.target, self._written_in[0]) from error

    def _submitter(self) -> Submitter:
        def show_id(identity: Identity) -> None:
            self._dialog.quiet()
            self._show_id(identity)

        dialog = self._dialog
        return Submitter(
            self._home,
            self._found.target,
            self._line,
            self._stopwatch,
            dialog.agree,
            show_id,
            dialog.storing,
            lambda done, total: dialog.sending(self._found.target.name, done, total),
            self._written_in,
        )

    def _settle(self) -> tuple[Environment | None, Container | None]:
        """What the script will run in; most runs of the machine's own Python need not ask."""
        container = self._settle_container()
        return self._settle_environment(container, may_build=True), container

    def _settle_container(self) -> Container | None:
        compute = self._found.chosen.compute
        if not compute.kind.in_container:
            return None
        try:
            cuda, needs_gpu = self._needed_cuda(), self._needs_gpu()
            where = (self._home, self.project, compute, self._line.channel, self._dialog)
            return settle_container(*where, cuda, needs_gpu=needs_gpu)
        except ConfigError:
            # An open session keeps the rights of its login; a new group needs a new one.
            self._found.target.host.sever()
            raise

    def _needs_gpu(self) -> bool:
        return bool(self._found.chosen.compute.nvidia_docker) and self._found.job.gpu.count != 0

    def _needed_cuda(self) -> tuple[int, int] | None:
        if not self._found.chosen.compute.nvidia_docker:
            return None
        from holdfast.engine.submit.gpu_request import needed_cuda

        return needed_cuda(self.project, self._found.chosen, self._found.job.source_file, self._line.channel)

    def _settle_environment(self, container: Container | None, *, may_build: bool) -> Environment | None:
        chosen, job = self._found.chosen, self._found.job
        is_own = chosen.compute.user_managed_environment
        managed = not is_own if container else is_own is False
        if not managed:
            return None
        channel = self._line.channel
        try:
            where = (self._home, self.project, chosen, job.source_file, channel)
            return settle_environment(*where, self._dialog, container, may_build=may_build)
        except BuildNeededError:
            raise
        except ConfigError as error:
            if (job.interpreter or {}).get("origin") == "project":
                error.hint = f"{error.hint}\nto run without the declared packages: --env none".lstrip()
            raise


def settle_environment(
    home: Home,
    project: Project,
    chosen: Chosen,
    script: str,
    channel: RunnerChannel,
    dialog: Dialog,
    container: Container | None = None,
    *,
    may_build: bool = True,
) -> Environment | None:
    """The environment that the project declares, solved if it has not been; None where nothing is declared.

    Without ``may_build`` no program of a package runs for it: BuildNeeded is raised where one would have to.
    """
    from holdfast.engine.submit import environment as environments
    from holdfast.engine.submit import lock as solving

    request = environments.ask(project, chosen, script, channel, container)
    if request is None:
        return None
    if request.findings:
        dialog.findings(request.findings)
    config = chosen.config.name
    if solving.is_outdated(project, request, config):
        outdated = f"aml_config/{config}.lock no longer matches {request.declared.file}"
        from shlex import quote

        dialog.warn(f"{outdated}; holdfast env lock -c {quote(config)}")
    lock = solving.remembered(home, project, request, config)
    if lock is None:
        lock = solving.solve(home, project, request, channel, dialog.preparing, may_build=may_build)
        dialog.quiet()
    return environments.place(request, lock, project, str(channel.hello()["home"]))


def settle_container(
    home: Home,
    project: Project,
    compute: ComputeTarget,
    channel: RunnerChannel,
    dialog: Dialog,
    cuda: tuple[int, int] | None = None,
    *,
    needs_gpu: bool = False,
) -> Container:
    """The engine and image of a container, with progress where an image must be fetched first.

    ``cuda`` is what the project's framework needs of an image that replaces a withdrawn one. With ``needs_gpu`` a
    target without a GPU for containers is refused before that.
    """
    from holdfast.engine.submit import container as containers
    from holdfast.image_names import cuda_of, replaced

    image, warning = replaced(compute.base_docker_image or "", cuda)
    if warning:
        dialog.warn(warning)
        compute = compute._replace(base_docker_image=image)
    if needs_gpu and cuda_of(image):
        from holdfast.engine.submit.environment import target_cuda

        containers.refuse_newer_cuda(compute, image, target_cuda(channel, compute))
    container = containers.settle(home, project, compute, channel, dialog.preparing, needs_gpu=needs_gpu)
    dialog.quiet()
    return container
