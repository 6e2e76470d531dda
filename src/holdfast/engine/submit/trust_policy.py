"""The trust rules: what a project may decide, what needs a confirmation on this machine, what it may never set.

Submitting a project runs its script: what the script could do itself needs no confirmation. What goes beyond it does:
another machine, a credential, a folder or a device of the machine in a container, a program that runs outside the
script. ``TABLE`` is the rule for every key, docs/trust.md shows it; ``wanted`` applies it to one target. Nothing is
written here.
"""

from __future__ import annotations

import os

from holdfast import target_lookup
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.amlconfig.types import ComputeTarget, RunConfig

ALONE, CONFIRM, NEVER = "alone", "confirmed", "never"
# Needed when the command is run, not for every use of the target.
SWITCHES = ("startCommand", "stopCommand")
# What attaching writes, and so confirms.
ATTACHED = ("address", "privateKeyFile", "pythonLocation", "root")
_SHARE = "~/.azureml/share"
_OWN_NETWORKS = ("bridge", "none", "private", "pasta", "slirp4netns")
_MACHINE = "address, port, username and hostKey together are the machine; with a hostKey its address may change"
_HERE = "on this machine only if it is in the project or another user can change it"
_CONTAINER = "has no effect outside the container"


class Rule(Record):
    """``files``: the kind of file that has the key; ``rule``: one of the three words; ``note``: when and why."""

    files: str
    key: str
    rule: str
    note: str = ""


class Wanted(Record):
    """Something that has to be confirmed. ``value`` is compared, ``shown`` is what a person reads."""

    key: str
    value: str
    shown: str
    is_in_runconfig: bool = False


def _rules(files: str, rule: str, note: str, *keys: str) -> tuple[Rule, ...]:
    return tuple(Rule(files, key, rule, note) for key in keys)


TABLE = (
    *_rules(".compute", CONFIRM, _MACHINE, "address", "port", "username", "hostKey"),
    Rule(".compute", "type", CONFIRM, "only where a machine confirmed for containers is to run scripts without one"),
    Rule(".compute", "privateKeyFile", CONFIRM, "one of your credentials"),
    Rule(
        ".compute",
        "pythonLocation",
        CONFIRM,
        f"a path; not a bare name and not in a container; {_HERE}",
    ),
    Rule(".compute", "environment", CONFIRM, f"only a path, as pythonLocation; {_HERE}"),
    Rule(".compute", "root", CONFIRM, "the folder that keeps runs: files are made there before the script starts"),
    Rule(".compute", "nativeSharedDirectory", CONFIRM, f"unless it is {_SHARE} or below it"),
    Rule(".compute", "sharedData", CONFIRM, "other users of the machine can read what is sent"),
    Rule(".compute", "baseDockerImage", CONFIRM, "only rootfs:/folder, which is a folder of the machine"),
    Rule(".compute", "containerUser", CONFIRM, "only root as user or group: the name, or 0 in any spelling"),
    Rule(".compute", "network", CONFIRM, f"unless it is {', '.join(_OWN_NETWORKS)}"),
    Rule(".compute", "dockerArguments", CONFIRM, "options that reach out of the container; limits and names do not"),
    Rule(".compute", "startCommand", CONFIRM, "a command on this machine; when it is to be run"),
    Rule(".compute", "stopCommand", CONFIRM, "a command on this machine; when it is to be run"),
    Rule(".compute", "stopOnTarget", CONFIRM, "a command on the target, outside the script"),
    Rule(".compute", "password", NEVER, "not read from a file"),
    *_rules(".compute", ALONE, _CONTAINER, "dockerfile", "engine", "sharedVolumes", "nvidiaDocker"),
    *_rules(".compute", ALONE, _CONTAINER, "shmSize", "memory", "cpus"),
    *_rules(".compute", ALONE, "", "userManagedEnvironment", "stopWhenIdleMinutes", "pricePerHour"),
    *_rules(".compute", ALONE, "not used", "gpus"),
    *_rules(
        ".compute", ALONE, "how the driver is started on a confirmed cluster", "sparkSubmitLocation", "yarnDeployMode"
    ),
    *_rules(".compute", ALONE, "as type", "cluster", "native"),
    Rule(
        ".runconfig",
        "Target",
        CONFIRM,
        "only where it leads to one of your targets that is itself in this table, under another name than you typed",
    ),
    Rule(
        ".runconfig",
        "data",
        CONFIRM,
        "a path out of the project, for other machines and containers; a path_on_target, for containers",
    ),
    Rule(".runconfig", "links", CONFIRM, "for containers, if a link leads out of the project"),
    *_rules(".runconfig", ALONE, "the script and what it is given", "ArgumentVector", "EnvironmentVariables"),
    *_rules(".runconfig", ALONE, "files of the project", "CondaDependenciesFile", "SparkDependenciesFile", "CondaFile"),
    *_rules(".runconfig", ALONE, "", "Framework", "timeout", "grace", "fetchOutputs", "maxLogSize", "scalars"),
    *_rules(".runconfig", ALONE, "", "keepLimit", "keepFiles"),
    *_rules(".runconfig", ALONE, "", "capture"),
    *_rules(".runconfig", ALONE, "", "gpus", "requireGpu", "gpuGrace", "waitForGpu"),
    *_rules(".runconfig", ALONE, "not used", "PrepareEnvironment", "ManagedEnvironment", "TrackedRun", "Description"),
    *_rules(".runconfig", ALONE, "not used", "UseSampling", "DataSourceSettings", "DataSourceSubstitutions"),
    Rule(".runconfig of 2018", "target", CONFIRM, "as Target"),
    Rule(".runconfig of 2018", "environment.docker.arguments", CONFIRM, "as dockerArguments"),
    Rule(".runconfig of 2018", "environment.docker.baseImage", CONFIRM, "as baseDockerImage"),
    *_rules(".runconfig of 2018", NEVER, "not read from a file", "environment.docker.baseImageRegistry.username"),
    *_rules(".runconfig of 2018", NEVER, "not read from a file", "environment.docker.baseImageRegistry.password"),
    *_rules(".runconfig of 2018", ALONE, "", "script", "arguments", "framework", "maxRunDurationSeconds"),
    *_rules(".runconfig of 2018", ALONE, "", "environment.environmentVariables"),
    *_rules(".runconfig of 2018", ALONE, "", "environment.python.condaDependenciesFile"),
    *_rules(
        ".runconfig of 2018", ALONE, "not used", "prepareEnvironment", "environment.python.userManagedDependencies"
    ),
    *_rules(".runconfig of 2018", ALONE, "not used", "environment.python.interpreterPath", "environment.spark"),
    *_rules(".runconfig of 2018", ALONE, _CONTAINER, "environment.docker.enabled", "environment.docker.sharedVolumes"),
    *_rules(".runconfig of 2018", ALONE, _CONTAINER, "environment.docker.gpuSupport", "environment.docker.shmSize"),
    Rule(".runconfig of 2018", "environment.docker.baseImageRegistry.address", ALONE, "where the image comes from"),
    *_rules(".holdfast-project", ALONE, "a GUID; a single folder name", "id", "name"),
    Rule(".azureml/project.json", "Id", ALONE, "a GUID"),
    Rule(".azureml/project.json", "Scope", ALONE, "single folder names below the shared folder"),
    Rule("the project's folder", "its owner", CONFIRM, "if it, its aml_config or a file in it is of another user"),
    Rule(
        "settings of the user",
        "all",
        NEVER,
        "onEnd (--notify), defaultTarget, keepWork, keepLimit, keepFiles, keepRuns, keepTrash, agentGpuHours",
    ),
    Rule("command line", "-e, --env-file, --secret", NEVER, "values go only to a confirmed target"),
    Rule("command line", "--link", NEVER, "folders outside the project by NAME=FOLDER"),
)


def wanted(compute: ComputeTarget, config: RunConfig | None = None, root: str = "") -> list[Wanted]:
    """What must be confirmed before the target is used, or one of its commands is run, for the project in ``root``."""
    contained = compute.kind.in_container
    needed = [*_login(compute, contained), *_places(compute, root, contained)]
    if config is not None and config.data and (contained or compute.kind.is_remote):
        needed += _data(config, root, contained)
    if contained:
        needed += _container(compute)
        needed += _links(config, root) if config is not None else ()
    commands = (("startCommand", compute.start_command), ("stopCommand", compute.stop_command))
    needed += [Wanted(key, text, f"run on this machine: {text}") for key, text in commands if text]
    needed += [Wanted(key, str(value), f"use {value}") for key, value in compute.own_settings.items()]
    if compute.stop_on_target:
        needed.append(Wanted("stopOnTarget", compute.stop_on_target, f"run on the target: {compute.stop_on_target}"))
    return needed


def covers(value: str, permission: Wanted) -> bool:
    """Whether a confirmed value of the same key allows this request: without a container covers within one."""
    return permission.value == value or (permission.key == "address" and permission.value == f"{value}{IN_CONTAINER}")


IN_CONTAINER = " in a container"  # at the end of a stored address; part of the file's format


def _login(compute: ComputeTarget, contained: bool) -> Iterator[Wanted]:
    host, port = target_lookup.endpoint(compute)
    if not host:
        return
    if not compute.kind.over_ssh:
        yield Wanted("address", f"{host}:{port or ''}", f"run on {host}{f':{port}' if port else ''}")
        return
    from holdfast.hosts.openssh import fingerprint

    identity = compute.host_key or f"{host}:{port or ''}"
    where = IN_CONTAINER if contained else ""
    shown = f"log in to {f'{compute.username}@' if compute.username else ''}{host}{f':{port}' if port else ''}"
    key = f"host key {fingerprint(compute.host_key)}" if compute.host_key else "host key as in your known_hosts"
    how = "runs in containers" if contained else "runs as that user"
    yield Wanted("address", f"{compute.username or ''}@{identity}{where}", f"{shown}, {key}, {how}")
    if compute.private_key_file:
        yield Wanted("privateKeyFile", compute.private_key_file, f"log in with the key {compute.private_key_file}")


def _places(compute: ComputeTarget, root: str, contained: bool) -> Iterator[Wanted]:
    for key, python in (("pythonLocation", compute.python_location), ("environment", compute.own_environment)):
        is_path = python and (key == "environment" or "/" in python or os.sep in python)
        if python and is_path and not contained and (compute.kind.is_remote or not _is_own(python, root)):
            yield Wanted(key, python, f"run the interpreter {python}")
    if compute.root:
        yield Wanted("root", compute.root, f"keep runs in {compute.root}")
    if compute.shared_data:
        shown = f"keep data where other users can read it: {compute.shared_data}"
        yield Wanted("sharedData", compute.shared_data, shown)
    share = compute.native_shared_directory or ""
    if share and not _is_default_share(share):
        shown = f"mount folders below {share}, writable" if contained else f"make folders below {share}"
        yield Wanted("nativeSharedDirectory", share, shown)


def _is_own(path: str, root: str) -> bool:
    """On this machine: outside the project, and only for us and root to change."""
    from holdfast.trust.ownership import is_changeable_by_others

    # The folder counts as well as the program that a link in it leads to: an interpreter reads what lies beside it.
    both = (path, os.path.dirname(path))
    return os.path.isabs(path) and not any(
        is_changeable_by_others(part) or (root and _is_below(part, root)) for part in both
    )


def _is_default_share(path: str) -> bool:
    return f"{path}/".startswith(f"{_SHARE}/") and ".." not in path.split("/")


def _is_below(path: str, folder: str) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


def _container(compute: ComputeTarget) -> Iterator[Wanted]:
    from holdfast.runner.container.argv import is_root_name

    image = compute.base_docker_image or ""
    if image.startswith("rootfs:"):
        yield Wanted("baseDockerImage", image, f"use the folder {image[7:]} as a root file system")
    user = compute.container_user or ""
    if any(is_root_name(part) for part in user.split(":")):
        yield Wanted("containerUser", user, "run as root in the container")
    if compute.network and compute.network not in _OWN_NETWORKS:
        yield Wanted("network", compute.network, f"use the network {compute.network}")
    if compute.docker_arguments:
        from holdfast.amlconfig.docker_arguments import HARMLESS, options

        for name, value in options(compute.docker_arguments):
            if name not in HARMLESS:
                text = f"{name} {value}".strip()
                yield Wanted("dockerArguments", text, f"start the container with {text}")


def _data(config: RunConfig, root: str, contained: bool) -> Iterator[Wanted]:
    for entry in config.data or ():
        if entry.path_on_target:
            if contained:
                shown = f"mount {entry.path_on_target} of the machine, read-only"
                yield Wanted("data", entry.path_on_target, shown, is_in_runconfig=True)
            continue
        path = os.path.realpath(os.path.join(root, os.path.expanduser(entry.path)))
        if not _is_below(path, root):
            yield Wanted("data", path, f"let its runs read {path}", is_in_runconfig=True)


def _links(config: RunConfig, root: str) -> Iterator[Wanted]:
    for name in config.links or ():
        path = os.path.realpath(os.path.join(root, name))
        if not _is_below(path, root):
            yield Wanted("links", path, f"mount {path} as {name}, writable", is_in_runconfig=True)
