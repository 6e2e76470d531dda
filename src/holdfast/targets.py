"""From a name on the command line to a target: the kinds table, and where its rows take their settings from."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from holdfast.amlconfig.types import ComputeTarget, RunConfig
from holdfast.errors import ConfigError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.ports import Host, Launcher, Runtime

# type in a .compute file -> host, launcher, runtime; imported when a row is used. Foreign kinds come by entry point.
KINDS = {
    "local": (
        "holdfast.hosts.local:LocalHost",
        "holdfast.launchers.process:ProcessLauncher",
        "holdfast.runtimes.python:PythonRuntime",
    ),
}
_LATER = ("docker", "localdocker", "remote", "remotedocker", "virtualmachine", "cluster", "slurm", "ray")


class Target(NamedTuple):
    """A row of the table with its settings: all that is needed to reach a machine and start a script there."""

    name: str
    kind: str
    host: Host
    launcher: Launcher
    runtime: Runtime
    runner_python: str
    home: str | None
    share_base: str | None


class Chosen(NamedTuple):
    """What ``-c NAME`` stands for."""

    config: RunConfig
    compute: ComputeTarget


def choose(root: str, name: str, target: str | None = None) -> Chosen:
    """The run configuration of that name and the target it runs on; ``local`` needs no files at all."""
    folder = os.path.join(root, "aml_config")
    path = os.path.join(folder, f"{name}.runconfig")
    if os.path.exists(path):
        from holdfast import amlconfig

        config, findings = amlconfig.read_runconfig(path)
        amlconfig.raise_errors(findings)
        if config is None:
            raise ConfigError("this run configuration cannot be read", where=path)
    elif name == "local" or os.path.exists(os.path.join(folder, f"{name}.compute")):
        config = RunConfig(name=name, target=name, framework="Python")
    else:
        raise UsageError(f"there is no run configuration or target named {name!r}", where=folder, hint=_known(folder))
    return Chosen(config, _compute(folder, target or config.target or name))


def resolve(compute: ComputeTarget, home: str) -> Target:
    """The row of the kinds table for a target. ``home`` is this user's own store, which is also that of ``local``."""
    row = KINDS.get(compute.type)
    if row is None:
        later = (
            f"targets of type {compute.type} are not supported by this version"
            if compute.type in _LATER
            else f"{compute.type!r} is no type of target"
        )
        raise ConfigError(later, where=f"{compute.name}.compute", hint=f"types: {', '.join(KINDS)}")
    host, launcher, runtime = (_import(place) for place in row)
    root = os.path.abspath(os.path.expanduser(compute.root)) if compute.root else home
    python = compute.python_location or "python"
    return Target(
        compute.name,
        compute.type,
        host(),
        launcher(),
        runtime(python),
        sys.executable,
        root,
        compute.native_shared_directory,
    )


def _compute(folder: str, name: str) -> ComputeTarget:
    path = os.path.join(folder, f"{name}.compute")
    if os.path.exists(path):
        from holdfast import amlconfig

        compute, findings = amlconfig.read_compute(path)
        amlconfig.raise_errors(findings)
        if compute is None:
            raise ConfigError("this target cannot be read", where=path)
        return compute
    if name == "local":
        return ComputeTarget(name="local", type="local", native_shared_directory="~/.azureml/share/")
    raise ConfigError(f"there is no target named {name!r}", where=path, hint=_known(folder))


def _known(folder: str) -> str:
    names = {"local"}
    if os.path.isdir(folder):
        names |= {os.path.splitext(name)[0] for name in os.listdir(folder) if name.endswith((".runconfig", ".compute"))}
    return f"known here: {', '.join(sorted(names))}"


def _import(place: str):  # type: ignore[no-untyped-def]
    module, _, name = place.partition(":")
    __import__(module)
    return getattr(sys.modules[module], name)
