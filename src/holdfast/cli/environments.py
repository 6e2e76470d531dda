"""Prepares the environment of a submit and shows its progress."""

from __future__ import annotations

import os

from holdfast import answers, image_names, target_lookup
from holdfast.cli.confirm import confirm
from holdfast.cli.dialog import TerminalDialog, preparing_text
from holdfast.cli.reach import tell_quiet
from holdfast.engine.connection.channel import connect
from holdfast.engine.submit import declaration
from holdfast.engine.submit import environment as engine
from holdfast.engine.submit import lock as solving
from holdfast.engine.submit.session import settle_container, settle_environment
from holdfast.environments.revival import gpu_frameworks
from holdfast.environments.secrets import scrub
from holdfast.errors import ConfigError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.submit.environment import Environment
    from holdfast.environments.lock import Lock
    from holdfast.environments.spec import Facts
    from holdfast.model import Json, Project
    from holdfast.present.terminal import Progress
    from holdfast.store.home import Home
    from holdfast.target_lookup import Chosen


class Bench:
    """A project's environment on one target, with the connection that questions about it need."""

    def __init__(self, home: Home, project: Project, chosen: Chosen) -> None:
        self.home = home
        self.project = project
        self.chosen = chosen
        confirm(home.path, project.root, chosen)
        self.target = target_lookup.resolve(chosen.compute, home.path)
        self.channel = connect(home, self.target, on_quiet=tell_quiet)
        self.dialog = TerminalDialog()
        self.container = (
            settle_container(home, project, chosen.compute, self.channel, self.dialog, self._needed_cuda())
            if chosen.compute.kind.in_container
            else None
        )

    def _needed_cuda(self) -> tuple[int, int] | None:
        if not self.chosen.compute.nvidia_docker:
            return None
        from holdfast.engine.submit.gpu_request import needed_cuda

        return needed_cuda(self.project, self.chosen, "", self.channel)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def fixed(self, *, gpu: bool) -> tuple[str, str, str]:
        """The declaring file, its text, and its text with what is withdrawn replaced, with this target's Python."""
        facts, interpreter, _ = engine.understood(engine.target_facts(self.channel, self.chosen))
        return declaration.fixed(self.project.root, self.chosen, interpreter, facts if gpu else None)

    def settle(self, script: str, *, may_build: bool = True) -> Environment | None:
        where = (self.home, self.project, self.chosen, script, self.channel)
        return settle_environment(*where, self.dialog, self.container, may_build=may_build)

    def solve(self, script: str) -> Lock:
        """Solve the lock again, even if one is cached."""
        requirements = engine.ask(self.project, self.chosen, script, self.channel, self.container)
        if requirements is None:
            raise UsageError(
                "no environment is declared here", where=self.project.root, hint="holdfast env add PACKAGE"
            )
        try:
            return solving.solve(self.home, self.project, requirements, self.channel, self.dialog.preparing)
        finally:
            self.dialog.quiet()

    def build(self, environment: Environment, progress: Progress) -> Json | None:
        """Make it on the target; what the time was spent on, or None where it was already there."""
        for header, _ in self.channel.stream("prepare", environment=environment.to_build(self.project.root)):
            event = header.get("progress")
            if isinstance(event, dict):
                progress.update(preparing_text(event))
            if header.get("failed") is not None:
                what, _, rest = answers.text(header, "failed").partition("\n")
                raise ConfigError(what, where=environment.source, answer=rest)
            if header.get("end"):
                ledger = header.get("ledger")
                return ledger if isinstance(ledger, dict) else None
        return None

    def describe(self, script: str) -> Json:
        requirements = engine.ask(self.project, self.chosen, script, self.channel, self.container)
        if requirements is None:
            return {"declared": None}
        lock = solving.remembered(self.home, self.project, requirements, self.chosen.config.name)
        row: Json = {
            "declared": requirements.declared.file,
            "why": requirements.declared.why,
            "kind": requirements.spec.kind,
        }
        row.update(spec=requirements.key, solved=lock is not None, packages=None, environment=None, built=False)
        row.update(torch_build=requirements.spec.pip_options.torch_backend or None, gpu=_gpu(requirements.facts))
        if lock is not None:
            environment = engine.place(requirements, lock, self.project, str(self.channel.hello()["home"]))
            packages = sorted(
                [f"{package.name}={package.version}" for package in lock.conda] + [_plain(line) for line in lock.pip]
            )
            row.update(environment=environment.key, packages=packages, built=os.path.isdir(environment.prefix))
        return row


def described_offline(root: str, chosen: Chosen) -> Json:
    """What the project declares for a container, without asking the engine, which would fetch the image."""
    from holdfast.environments import sources

    declared = sources.find(root, chosen.config, "")
    if declared is None:
        return {"declared": None}
    spec, findings = declaration.read_replaced(root, chosen, declared, "", None)
    if spec is None:
        engine.refuse(findings)
        return {"declared": declared.file}
    TerminalDialog().findings(findings)
    requested = sorted(_plain(scrub(entry.text)) for entry in (*spec.conda, *spec.pip))
    image = image_names.replaced(chosen.compute.base_docker_image or "", gpu_frameworks.needed_cuda(spec))[0]
    return {
        "declared": declared.file,
        "why": declared.why,
        "kind": spec.kind,
        "python": spec.python,
        "requested": requested,
        "image": image or None,
    }


def _gpu(facts: Facts) -> str | None:
    """As text; None if the target has no NVIDIA GPU."""
    if not facts.cuda:
        return None
    cards = ", ".join(sorted(set(facts.capabilities)))
    return f"driver {facts.driver}, CUDA {facts.cuda} and older, compute capability {cards}"


def _plain(line: str) -> str:
    return line.split(" --hash", 1)[0].strip()
