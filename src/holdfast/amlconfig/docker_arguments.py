"""Parses and checks ``dockerArguments``: options for the engine's ``run``, parsed as docker and podman do it.

The list of options is closed. Options that Holdfast sets itself are refused with the key to use instead. Unknown ones
are refused too: a later engine may give them a meaning that breaks runs. Options that weaken isolation are accepted
with a warning.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.amlconfig.types import Severity

_VALUED = """
--add-host --annotation --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent --cgroupns
--cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime --cpu-shares --cpuset-cpus --cpuset-mems
--device --device-cgroup-rule --device-read-bps --device-read-iops --device-write-bps --device-write-iops
--dns --dns-option --dns-search --expose --group-add --hostname --ip --ip6 --ipc --mac-address
--memory-reservation --memory-swap --memory-swappiness --mount --network-alias --oom-score-adj --pid --pids-limit
--publish --security-opt --sysctl --tmpfs --ulimit --userns --uts --volume --volumes-from
"""
_FLAGS = "--no-healthcheck --oom-kill-disable --privileged --publish-all --read-only"
# The target has to say that it has the engine that knows these.
_DOCKER_VALUED = "--domainname --link --storage-opt --volume-driver"
_PODMAN_VALUED = """
--cgroup-conf --cgroups --gidmap --personality --seccomp-policy --subgidname --subuidname --systemd --tz --uidmap
--umask
"""
_PODMAN_FLAGS = "--http-proxy --no-hosts --passwd --read-only-tmpfs"
# These change nothing outside the container; others need a confirmation (holdfast.engine.submit.trust_policy).
# Not --annotation: crun takes hooks and seccomp programs from it. Not --tz: older podmans copy any file that it names.
_CONFINED = """
--add-host --blkio-weight --cap-drop --cpu-period --cpu-quota --cpu-shares --cpuset-cpus --cpuset-mems
--dns --dns-option --dns-search --domainname --expose --hostname --memory-reservation --memory-swap
--memory-swappiness --no-healthcheck --no-hosts --passwd --personality --pids-limit --read-only --read-only-tmpfs
--tmpfs --ulimit --umask
"""
_OURS = """
--attach --cidfile --conmon-pidfile --detach --detach-keys --entrypoint --init --init-path --interactive --label
--label-file --log-driver --log-opt --name --pidfile --pod --preserve-fds --pull --quiet --replace --restart --rm --rmi
--sig-proxy --tty --workdir
"""
_VISIBLE = "write EnvironmentVariables: in the .runconfig; command lines are visible to all users of the machine"
_CARDS = "write nvidiaDocker: true in the .compute file; Holdfast chooses the option for the engine"

HARMLESS = frozenset(_CONFINED.split())
FLAGS = frozenset(f"{_FLAGS} {_PODMAN_FLAGS}".split())
ENGINES = {
    **dict.fromkeys(f"{_VALUED} {_FLAGS}".split(), ("docker", "podman")),
    **dict.fromkeys(_DOCKER_VALUED.split(), ("docker",)),
    **dict.fromkeys(f"{_PODMAN_VALUED} {_PODMAN_FLAGS}".split(), ("podman",)),
}
RESERVED = {
    **dict.fromkeys(_OURS.split(), "Holdfast sets this for every run: delete it"),
    **dict.fromkeys(("--env", "--env-file", "--env-host"), _VISIBLE),
    **dict.fromkeys(("--gpus", "--runtime"), _CARDS),
    **dict.fromkeys(("--network", "--net"), "write network: in the .compute file"),
    "--user": "write containerUser: in the .compute file",
    "--memory": "write memory: in the .compute file",
    "--cpus": "write cpus: in the .compute file",
    "--shm-size": "write shmSize: in the .compute file",
    "--rootfs": "write baseDockerImage: rootfs:/folder in the .compute file",
    "--platform": "environments are built for the machine's platform: name an image for it",
    "--secret": "use --secret of holdfast submit",
    "--stop-timeout": "write grace: in the .runconfig",
    "--stop-signal": "a canceled run gets SIGTERM, then SIGKILL after grace: of the .runconfig",
    "--timeout": "write timeout: in the .runconfig",
}
SHORT = {
    "-a": "--attach",
    "-c": "--cpu-shares",
    "-d": "--detach",
    "-e": "--env",
    "-h": "--hostname",
    "-i": "--interactive",
    "-l": "--label",
    "-m": "--memory",
    "-p": "--publish",
    "-q": "--quiet",
    "-t": "--tty",
    "-u": "--user",
    "-v": "--volume",
    "-w": "--workdir",
}

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_HOST_SPACES = {
    "--pid": "the script sees every process of the machine and can inspect those of its user",
    "--ipc": "the script shares memory with every process of the machine; for more of /dev/shm write shmSize: 8GB",
    "--uts": "the script can change the machine's name",
    "--userns": "user ids in the container are those of the machine",
    "--cgroupns": "the script sees the control groups of the machine",
}
_STRONG = ("ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT", "DAC_READ_SEARCH", "BPF", "MAC_ADMIN")
_SOCKETS = ("docker.sock", "podman.sock", "containerd.sock", "crio.sock")
_FOLDERS = ("/", "/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/usr", "/var", "/var/run", "/var/lib")
_DISKS = ("/dev/sd", "/dev/hd", "/dev/vd", "/dev/xvd", "/dev/nvme", "/dev/mmcblk", "/dev/dm-", "/dev/mapper", "/dev/md")
_MEMORY = ("/dev/loop", "/dev/disk", "/dev/mem", "/dev/kmem", "/dev/port")


class Remark(Record):
    """What there is to say about the word of that number."""

    severity: Severity
    word: int
    message: str
    hint: str = ""


def remarks(arguments: Sequence[str], engine: str | None) -> list[Remark]:
    """Errors where these words may not be handed to the engine, warnings where they give something away."""
    result = [
        Remark("error", at, f"{word!r} contains unprintable characters", "delete them")
        for at, word in enumerate(arguments)
        if not word.isprintable()
    ]
    rest = iter(enumerate(arguments)) if not result else iter(())
    for at, word in rest:
        name, value = _taken_apart(word)
        refusal = _refusal(word, name, engine)
        if refusal is None and value is None and name not in FLAGS:
            value = next(rest, (at, ""))[1]
        if refusal is None:
            refusal = _bad_value(name, value)
        if refusal is not None:
            result.append(Remark("error", at, *refusal))
            if value is None and at + 1 < len(arguments) and not arguments[at + 1].startswith("-"):
                next(rest)  # its value, and nothing to complain about twice
        elif meaning := _given_away(name, value or ""):
            result.append(Remark("warning", at, f"{name}{f' {value}' if value else ''}: {meaning}"))
    return result


def options(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """The long name of every option, with its value; for words that ``remarks`` has no error for."""
    pairs, rest = [], iter(arguments)
    for word in rest:
        name, value = _taken_apart(word)
        if value is None and name not in FLAGS:
            value = next(rest, "")
        pairs.append((name, value or ""))
    return pairs


def _taken_apart(word: str) -> tuple[str, str | None]:
    """The long name of an option, and the value in the same word if there is one."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    if word[:1] == "-" and word[1:]:
        return SHORT.get(word[:2], word[:2]), word[2:].removeprefix("=") if word[2:] else None
    return word, None


def _refusal(word: str, name: str, engine: str | None) -> tuple[str, str] | None:
    """The reason, without a value in the same argument: it may be a secret."""
    typed = word.partition("=")[0] if word.startswith("--") else word[:2]
    if not name.startswith("-"):
        return f"expected an option, found {word!r}", "an option begins with '-', followed by its value"
    if name in RESERVED:
        return f"{typed} is not allowed in dockerArguments", RESERVED[name]
    engines = ENGINES.get(name)
    if engines is None:
        return f"{typed} is not a supported option", _near(name)
    if len(engines) == 1 and engine not in engines:
        return f"{name} is an option of {engines[0]} only", f"write engine: {engines[0]} in the .compute file"
    return None


def _near(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name[:60], sorted({*ENGINES, *RESERVED}), n=3, cutoff=0.7)
    return f"did you mean {' or '.join(close)}?" if close else "docs/settings.md lists the supported options"


def _bad_value(name: str, value: str | None) -> tuple[str, str] | None:
    if name in FLAGS:
        if value is None or value in _TRUE or value in _FALSE:
            return None
        return f"{name} is a flag: it cannot be {value!r}", f"write {name}"
    # What looks like an option is one whose value was forgotten in the line before.
    if not value or value.startswith("--"):
        return f"{name} needs a value", f"write {name}=value"
    return None


def _given_away(name: str, value: str) -> str:
    """What a script could do with this that it could not do without; empty for nothing of weight."""
    if name == "--privileged" and value not in _FALSE:
        return "the script has root privileges on the machine"
    if value == "host" and name in _HOST_SPACES:
        return _HOST_SPACES[name]
    if name == "--cap-add" and value.upper().removeprefix("CAP_") in _STRONG:
        return "with this capability a script can become root on the machine"
    if name == "--security-opt" and ("unconfined" in value or value.replace(":", "=") == "label=disable"):
        return "this removes an isolation between the script and the machine's kernel"
    if name == "--device" and value.startswith((*_DISKS, *_MEMORY)):
        return "the script can read and change everything on it, regardless of file permissions"
    if name == "--device-cgroup-rule" and value.strip()[:1] in ("a", "b"):
        return "the script can create device nodes of disks"
    if name in ("--volume", "--mount"):
        return _mounted(name, value)
    return ""


def _mounted(name: str, value: str) -> str:
    import posixpath

    if name == "--volume":
        source = value.partition(":")[0]
    else:
        fields = [field.strip('" ').partition("=") for field in value.split(",")]
        source = next((text for key, _, text in fields if key in ("source", "src")), "")
    path = posixpath.normpath(f"/{source.lstrip('/')}") if source.startswith("/") else ""
    if posixpath.basename(path) in _SOCKETS:
        return "access to this socket is equivalent to root on the machine"
    if path in _FOLDERS:
        return f"{path} of the machine is accessible to the script"
    return ""
