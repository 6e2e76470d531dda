"""Resolves a name on the command line to a target: its row of the kinds table, and the files with its settings.

Targets and run configurations are files, in the project's ``aml_config`` or once for the user in the store's
``targets`` folder; the project's own win. ``local`` needs no file at all.
"""

from __future__ import annotations

import os
import sys

from holdfast import kinds
from holdfast.amlconfig.types import BUILT_IN, ComputeTarget, Finding, RunConfig, split_address
from holdfast.errors import ConfigError, UsageError
from holdfast.model import Login
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.trust.ownership import foreign_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.kinds import Kind
    from holdfast.ports import Host, Launcher, Runtime, RuntimeParts


class Target(Record):
    """A row of the table with its settings: all that is needed to reach a machine and start a script there.

    ``runtime`` is made once it is known what it is to run: environment, container and GPUs are found out on the target.
    """

    name: str
    kind: Kind
    host: Host
    launcher: Launcher
    runtime: Callable[[RuntimeParts], Runtime]
    runner_python: str
    home: str | None
    share_base: str | None
    shims: str | None
    compute: ComputeTarget


class Chosen(Record):
    """What ``-c NAME`` means, and the warnings about its files.

    ``is_target_named``: the user named the target, not the run configuration.
    ``config_file``: the path of the run configuration; empty where there is no file of it.
    """

    config: RunConfig
    compute: ComputeTarget
    warnings: list[Finding]
    is_target_named: bool = False
    config_file: str = ""


def folders(root: str, home: str) -> tuple[str, ...]:
    """Where targets and run configurations are looked for, in this order."""
    return os.path.join(root, "aml_config"), layout.targets(home)


def choose(places: Sequence[str], name: str, target: str | None = None) -> Chosen:
    """The run configuration of that name and the target it runs on."""
    path = find(places, f"{name}.runconfig")
    findings: list[Finding] = []
    if path is not None:
        config = _read_runconfig(path, findings)
    elif name in BUILT_IN or find(places, f"{name}.compute") is not None:
        config = RunConfig(name=name, target=name)
    else:
        raise UsageError(f"no run configuration or target named {name!r}", hint=_names(places, name))
    wanted = target or config.target or name
    compute = _read_compute(places, wanted, path if target is None else None, config, findings)
    if path is None:
        config = config._replace(framework=compute.kind.framework or "Python")
    if config.container is not None:
        from holdfast.amlconfig.successor import in_container

        compute = in_container(compute, config)
    return Chosen(config, compute, findings, target is not None, path or "")


def _names(places: Sequence[str], name: str) -> str:
    from difflib import get_close_matches

    known = sorted({*configurations(places), *targets(places)})
    near = get_close_matches(name.removesuffix(".runconfig").removesuffix(".compute"), known, 1, 0.7)
    meant = f"did you mean -c {near[0]}? " if near else ""
    return f"{meant}known: {', '.join(known)}; holdfast attach USER@HOST adds a machine"


def resolve(compute: ComputeTarget, home: str, *, patience: int = 10) -> Target:
    """The row of the kinds table for a target. ``home`` is this user's own store, which is also that of ``local``.

    ``patience``: how many seconds a machine may take to answer at all.
    """
    kind = compute.kind
    if not kind.is_available:
        known = kinds.is_known(kind.name)
        what = (
            f"targets of type {kind.name} are not supported yet" if known else f"unknown type of target: {kind.name!r}"
        )
        hint = f"this version has: {', '.join(kinds.available())}"
        raise ConfigError(what, where=f"{compute.name}.compute", hint=hint)
    launcher = _import(kind.launcher)
    here = not kind.is_remote
    root, share, shims = compute.root, compute.native_shared_directory, None
    if here:
        root = os.path.abspath(os.path.expanduser(root)) if root else home
        share = os.path.expanduser(share) if share else None
        shims = layout.shims_of_runs(home) if not kind.in_container else None
    runner = sys.executable if here else _runner_python("" if kind.in_container else compute.python_location or "")
    return Target(
        name=compute.name,
        kind=kind,
        host=host_class(kind)(login(compute, home)._replace(patience=patience)),
        launcher=launcher(compute.to_settings()),
        runtime=_import(kind.runtime),
        runner_python=runner,
        home=root,
        share_base=share,
        shims=shims,
        compute=compute,
    )


def host_class(kind: Kind) -> Callable[..., Host]:
    """What makes the host of a kind from a login; one of a kind that is reached by SSH takes what ``SshHost`` takes."""
    made: Callable[..., Host] = _import(kind.host)
    return made


def login(compute: ComputeTarget, home: str) -> Login:
    """How a target is reached. What we keep for it is filed under its key and user: its address may change."""
    address, port = endpoint(compute)
    who = f"{compute.host_key or f'{address}:{port}'} {compute.username or ''}"
    import hashlib

    folder = os.path.join(layout.ssh(home), hashlib.sha256(as_bytes(who)).hexdigest()[:32])
    identity = compute.private_key_file and os.path.expanduser(compute.private_key_file)
    if not identity and os.path.exists(layout.key(folder)):
        identity = layout.key(folder)
    asks = os.path.exists(layout.asks(folder))
    return Login(compute.name, folder, address, compute.username, port, compute.host_key, identity, asks)


def _runner_python(python: str) -> str:
    """An interpreter that was named by its path is good enough for the runner too; a bare name may be Python 2."""
    return python if "/" in python else "python3"


def as_machine(compute: ComputeTarget) -> ComputeTarget:
    """The target as a plain machine, whatever will run on it: containers and Spark are reached the same way."""
    return compute._replace(type=compute.kind.machine_kind or compute.type)


def endpoint(compute: ComputeTarget) -> tuple[str, int | None]:
    """The host name and port that a target is reached at; an empty name where its file has no address."""
    return split_address(compute.address or "", compute.port)


def targets(places: Sequence[str]) -> list[str]:
    """Names of all targets, with those that need no file."""
    return sorted({*BUILT_IN, *_stems(places, ".compute")})


def configurations(places: Sequence[str]) -> list[str]:
    return sorted(_stems(places, ".runconfig"))


def find(places: Sequence[str], name: str) -> str | None:
    """The file of that exact name in the first folder that has it. A run configuration may name its target.

    A file that another user put there is refused. What is not a regular file is refused by its reader.
    """
    try:
        untrusted.component(name)
    except untrusted.Untrusted as error:
        raise UsageError("a target or run configuration cannot have this name", answer=str(error)) from None
    path = next((path for path in (os.path.join(folder, name) for folder in places) if os.path.lexists(path)), None)
    if path is not None and foreign_owner(path) is not None:
        from holdfast.project import refuse_foreign

        refuse_foreign(path, os.path.dirname(os.path.dirname(path)))
    return path


def _read_runconfig(path: str, findings: list[Finding]) -> RunConfig:
    from holdfast import amlconfig

    config, problems = amlconfig.read_runconfig(path)
    amlconfig.raise_errors(problems)
    findings += problems
    if config is None:
        raise ConfigError("this run configuration cannot be read", where=path)
    return config


def _read_compute(
    places: Sequence[str], name: str, named_by: str | None, config: RunConfig, findings: list[Finding]
) -> ComputeTarget:
    path = find(places, f"{name}.compute")
    if path is None:
        if name in BUILT_IN:
            return BUILT_IN[name]
        _refuse_missing(places, name, named_by, config)
    from holdfast import amlconfig

    compute, problems = amlconfig.read_compute(str(path))
    amlconfig.raise_errors(problems)
    findings += problems
    if compute is None:
        raise ConfigError("this target cannot be read", where=str(path))
    return compute


def _refuse_missing(places: Sequence[str], name: str, named_by: str | None, config: RunConfig) -> None:
    if named_by is not None:
        from holdfast.amlconfig.check import check_target
        from holdfast.amlconfig.findings import raise_errors

        raise_errors(check_target(named_by, config, targets(places)))
    raise UsageError(f"no target named {name!r}", hint=f"known: {', '.join(targets(places))}")


def _stems(places: Sequence[str], ending: str) -> set[str]:
    names = [name for folder in places if os.path.isdir(folder) for name in os.listdir(folder)]
    return {name[: -len(ending)] for name in names if name.endswith(ending) and name != ending}


def _import(reference: str):  # type: ignore[no-untyped-def]
    module, _, name = reference.partition(":")
    try:
        __import__(module)
        return getattr(sys.modules[module], name)
    except (ImportError, AttributeError, ValueError) as error:
        what = f"{reference or 'an empty name'} cannot be loaded, which the kind of the target names"
        raise ConfigError(what, answer=f"{type(error).__name__}: {error}") from error
