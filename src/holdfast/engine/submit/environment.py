"""The environment of a run: what the project declares, what was solved for it, and where it will be on the target.

Two keys. The spec's key names what was asked for on what kind of machine; under it the lock that a solver once found
is remembered, so that asking again needs no solver and no network. The environment's key names what is installed.
"""

from __future__ import annotations

import hashlib
import os

from holdfast import answers
from holdfast.engine.submit import declaration
from holdfast.engine.submit.lock import place_of, text_of
from holdfast.environments import gpu as flavour
from holdfast.environments import lock, secrets, sources, wheels
from holdfast.environments.choice import is_bare, required_python
from holdfast.environments.revival import gpu_frameworks
from holdfast.environments.spec import Facts, Interpreter, Spec, python_findings, python_of, settled, spec_key
from holdfast.errors import ConfigError
from holdfast.model import Json
from holdfast.record import Record
from holdfast.runner.decoding import as_bytes
from holdfast.runner.machine import pip_configuration
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget, Finding
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.engine.submit.container import Container
    from holdfast.environments.edits import Edit
    from holdfast.environments.sources import Declared
    from holdfast.model import Project
    from holdfast.target_lookup import Chosen


class Asked(Record):
    """What a project declares, read for one target; ``elsewhere`` is its interpreter where that is not here.

    ``is_here``: the run will be on this machine itself, in no container. ``build`` is the container to build in.
    ``pip_configuration`` is that of this machine, which may hold passwords.
    """

    declared: Declared
    spec: Spec
    key: str
    facts: Facts
    python: str | None
    findings: tuple[Finding, ...]
    elsewhere: Json | None
    is_here: bool
    place: str
    build: Json | None
    pip_configuration: Json | None = None
    is_remote: bool = False


class Environment(Record):
    """An environment as a plan names it. ``lock`` goes to the target whole, with secrets of addresses filled in."""

    key: str
    prefix: str
    python: str
    source: str
    why: str
    lock: Json
    interpreter: str | None
    needs_project: bool
    container: Json | None = None
    pip_configuration: Json | None = None

    def to_build(self, project: str = "") -> Json:
        """What the target needs to make it; goes to the runner's memory and is stored nowhere.

        ``project`` is the folder with the project's own files; a run has its own copy of them.
        """
        own = (project or True) if self.needs_project else False
        fields: Json = {"key": self.key, "lock": self.lock, "interpreter": self.interpreter, "own_package": own}
        if self.pip_configuration:
            fields["pip_configuration"] = self.pip_configuration
        return {**fields, "container": self.container} if self.container else fields

    def in_plan(self) -> Json:
        """For the plan, which is stored: the lock as it may be kept."""
        return {"key": self.key, "prefix": self.prefix, "source": self.source, "why": self.why}


def ask(
    project: Project, chosen: Chosen, script: str, channel: RunnerChannel, container: Container | None = None
) -> Asked | None:
    """Read the declaration with the target's facts; None where nothing is declared. Errors in it are raised."""
    declared = sources.find(project.root, chosen.config, script)
    header = _header(project.root, script, declared)
    if declared is None and header is None:
        return None
    answer = container.facts if container is not None else target_facts(channel, chosen)
    facts, interpreter, path = understood(answer)
    if declared is None:
        refuse(python_findings(header, interpreter) if header and interpreter else [])
        return None
    spec, findings = declaration.read_replaced(project.root, chosen, declared, script, interpreter)
    if spec is None:
        refuse(findings)
        return None
    spec = _with_spark(project.root, chosen, settled(spec, interpreter), interpreter, answer, facts)
    findings += _python_findings(spec, header, interpreter) + _judged(spec, facts, interpreter)
    findings += _gpu_findings(spec, facts, chosen, container)
    refuse(findings)
    if spec.kind == "pip" and interpreter is None:
        raise _no_python(chosen)
    is_here = not chosen.compute.kind.is_remote and container is None
    return Asked(
        declared,
        spec,
        spec_key(spec, facts, interpreter),
        facts,
        path,
        tuple(findings),
        elsewhere=interpreter._asdict() if interpreter is not None and not is_here else None,
        is_here=is_here,
        place=place_of(channel, str(container.found["id"]) if container is not None else ""),
        build={**container.build, "network": chosen.compute.network} if container is not None else None,
        pip_configuration=_pip_configuration(),
        is_remote=chosen.compute.kind.is_remote,
    )


def _pip_configuration() -> Json:
    try:
        return pip_configuration.read()
    except pip_configuration.BadAddress as error:
        hint = "in a password write / as %2F, ? as %3F, # as %23 and @ as %40"
        raise ConfigError(str(error), where="pip's configuration (PIP_* variables, pip.conf)", hint=hint) from None


def _no_python(chosen: Chosen) -> ConfigError:
    location = chosen.compute.python_location or "python"
    hint = "set pythonLocation in the .compute file to an existing one"
    return ConfigError(f"Python {location!r} was not found", where=f"{chosen.compute.name}.compute", hint=hint)


def _gpu_findings(spec: Spec, facts: Facts, chosen: Chosen, container: Container | None) -> list[Finding]:
    image = container.image if container is not None else ""
    return list(gpu_frameworks.findings(spec, facts, image, needs_gpu=bool(chosen.compute.nvidia_docker)))


def _with_spark(
    root: str, chosen: Chosen, spec: Spec, interpreter: Interpreter | None, answer: Json, facts: Facts
) -> Spec:
    """With what a project that uses Spark needs and does not declare, and in the flavour for the target's GPUs."""
    if chosen.config.framework == "Python":
        return flavour.flavoured(spec, facts)
    from holdfast.engine.machines import spark_cluster
    from holdfast.engine.submit import spark_request
    from holdfast.environments.spark import with_spark

    if not spark_request.uses_spark(root):
        return flavour.flavoured(spec, facts)
    java = answer.get("java")
    connect = spark_cluster.master_of(chosen.compute).startswith("sc://")
    version = spark_cluster.version(chosen.compute, str(answer.get("spark") or ""))
    _check_spark(spec, version, chosen)
    python, number = python_of(spec, interpreter), java if isinstance(java, int) else 0
    return flavour.flavoured(with_spark(spec, python, number, connect=connect, version=version), facts)


def _check_spark(spec: Spec, version: str, chosen: Chosen) -> None:
    """A driver of another version than the cluster's would be refused by its master, or waits for it in vain."""
    from holdfast.engine.machines import spark_cluster
    from holdfast.environments.spark import declared_version

    declared = declared_version(spec)
    if declared is not None and spark_cluster.is_refused(chosen.compute, declared[0], version):
        what = (
            f"the project declares PySpark {declared[0]}, and the cluster of {chosen.compute.name} has Spark {version}"
        )
        where = f"{declared[1].file}:{declared[1].line}"
        raise ConfigError(what, where=where, hint=f"write pyspark=={version}, or delete that line: it is then added")


def _header(root: str, script: str, declared: Declared | None) -> Spec | None:
    """What the script's header requires of Python, where another file declares the packages, or none does."""
    if not is_bare(root) or (declared is not None and declared.kind == "script"):
        return None
    required = required_python(root, script)
    return Spec(source=script, kind="pip", python=required) if required else None


def _python_findings(spec: Spec, header: Spec | None, interpreter: Interpreter | None) -> list[Finding]:
    """Where pip would have to do with an interpreter that the declaration or the script's header rules out."""
    if interpreter is None:
        return []
    parts = (spec, header) if header is not None and spec.kind == "pip" else (spec,)
    return [finding for part in parts for finding in python_findings(part, interpreter)]


def place(requirements: Asked, locked: lock.Lock, project: Project, target_home: str) -> Environment:
    """Where a lock's environment is on the target; in a container it has the same path."""
    folder = layout.environments(target_home)
    key = lock.env_key(locked, folder) + _own_mark(locked, project)
    prefix = os.path.join(folder, key)
    whole = _restored(locked.to_json(), requirements.spec)
    why = requirements.declared.why
    interpreter = requirements.python if not locked.conda else None
    python, needs_project = f"{prefix}/bin/python", lock.needs_project(locked)
    return Environment(
        key,
        prefix,
        python,
        requirements.declared.file,
        why,
        whole,
        interpreter,
        needs_project,
        requirements.build,
        pip_configuration.portable(requirements.pip_configuration or {})
        if requirements.is_remote
        else requirements.pip_configuration,
    )


def target_facts(channel: RunnerChannel, chosen: Chosen) -> Json:
    location = chosen.compute.python_location or "python"
    return answers.table(channel.ask("facts", python=location), "facts", chosen.compute.name)


def target_cuda(channel: RunnerChannel, compute: ComputeTarget) -> str:
    """The newest CUDA that the target's driver serves; empty where there is none, or it is unknown."""
    answer = answers.table(channel.ask("facts", python="python3"), "facts", compute.name)
    return _machine(answer).cuda


def understood(answer: Json) -> tuple[Facts, Interpreter | None, str | None]:
    facts = _machine(answer)
    if answer.get("python") is None:
        return facts, None, None
    python = answers.table(answer, "python")
    version, identity, path = (answers.text(python, name) for name in ("version", "identity", "path"))
    return facts, Interpreter(version, identity), path


def _machine(answer: Json) -> Facts:
    table = answers.table(answer, "virtual")
    virtual = {name: None if table[name] is None else answers.text(table, name) for name in table}
    if answer.get("gpu") is None:
        return Facts(answers.text(answer, "platform"), virtual, "", ())
    cards = answers.table(answer, "gpu")
    capabilities = tuple(answers.texts(cards, "capabilities"))
    return Facts(answers.text(answer, "platform"), virtual, answers.text(cards, "driver"), capabilities)


def _judged(spec: Spec, facts: Facts, interpreter: Interpreter | None) -> list[Finding]:
    """Problems that are known before any download, one finding per line, with a fix where there is one."""
    idle = [_mendable(edit, "holdfast env fix --gpu") for edit in flavour.edits(spec, facts)]
    by_place: dict[tuple[str, int, int], Finding] = {}
    for finding in (*idle, *flavour.unusable(spec, facts), *wheels.findings(spec, facts, interpreter)):
        by_place.setdefault((finding.file, finding.line, finding.column), finding)
    return sorted(by_place.values(), key=lambda finding: (finding.file, finding.line, finding.column))


def _mendable(edit: Edit, command: str) -> Finding:
    return edit.finding._replace(hint=f"{edit.finding.hint}, or run: {command}")


def refuse(findings: list[Finding]) -> None:
    """Raise the first error; the others stand in its answer, for there is no other command that tells them."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        from holdfast.amlconfig.findings import place as place_of
        from holdfast.amlconfig.findings import render

        first, *others = errors
        raise ConfigError(first.message, where=place_of(first), answer=render(others).rstrip("\n"), hint=first.hint)


def _own_mark(locked: lock.Lock, project: Project) -> str:
    """The project's own package is part of the environment: its commands and its name are not in the lock."""
    if not locked.own_package:
        return ""
    text = text_of(os.path.join(project.root, "pyproject.toml"), project.root) or ""
    return "-" + hashlib.sha256(as_bytes(text)).hexdigest()[:8]


def _restored(plain: Json, spec: Spec) -> Json:
    entries = (*spec.pip, *spec.constraints, *spec.conda, *spec.option_lines)
    known = [entry.text for entry in entries] + list(spec.channels)
    return {name: _fill(value, known) for name, value in plain.items()}


def _fill(value: object, known: list[str]) -> object:
    if isinstance(value, str):
        return secrets.restored(value, known)
    if isinstance(value, list):
        return [_fill(item, known) for item in value]
    if isinstance(value, dict):
        return {name: _fill(item, known) for name, item in value.items()}
    return value
