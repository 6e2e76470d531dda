"""The command line of a container, as a pure function of the plan, the engine and the paths on this machine.

A container has labels and a name derived from the run's id. It gets nothing of the machine that was not requested: no
socket, no privileges, no namespace of the host.
"""

import os

from ..decoding import as_bytes
from ..store import layout

MYPY = False
if MYPY:
    from ..plan import Container

INIT = ("-E", "-s", "-S")
SHARE = "/azureml-share"
USERS = "/etc/passwd"
LABEL = "holdfast.run"


def name_of(uid: "str", attempt: "str") -> "str":
    return "holdfast-%s-%s" % (uid, attempt)


class Places:
    """Where the run's parts are, here and in the container: at the same paths, but for the shared folder.

    ``data`` is mounted read-only. ``ours``: the user and group ids of the caller; ``selinux``: whether labels keep
    containers from files of theirs. ``users``: a list of users for the container, which then knows the caller's name.
    """

    def __init__(
        self,
        attempt: "str",
        runner: "str",
        prefix: "str | None",
        share: "str | None",
        links: "list[str]",
        ours: "tuple[int, int]",
        selinux: "bool",
        data: "list[str] | None" = None,
        users: "str | None" = None,
    ) -> "None":
        self.attempt = attempt
        self.runner = runner
        self.prefix = prefix
        self.share = share
        self.links = links
        self.ours = ours
        self.selinux = selinux
        self.data = list(dict.fromkeys(data or ()))
        self.users = users

    def mounts(self) -> "list[tuple[str, str, bool]]":
        """(here, there, read-only)"""
        result = [(os.path.join(self.attempt, part), os.path.join(self.attempt, part), False) for part in PARTS]
        result.append((self.runner, self.runner, True))
        if self.prefix:
            result.append((self.prefix, self.prefix, True))
        if self.share:
            result.append((self.share, SHARE, False))
        if self.users:
            result.append((self.users, USERS, True))
        result += [(data, data, True) for data in self.data]
        return result + [(link, link, False) for link in self.links]


PARTS = (layout.workspace.name, layout.metrics.name, layout.inside.name)


def words(
    engine: "dict[str, object]", container: "Container", places: "Places", name: "str", gpu: "list[str]"
) -> "list[str]":
    """``container`` is the plan's own part on the container. Whatever is secret comes on the container's stdin."""
    argv = [str(engine["program"]), "create" if container.copied else "run", "--name", name, "--interactive"]
    argv += ["--label", "%s=%s" % (LABEL, name)]
    if container.gpu:  # by which its processes are known on a card
        argv += ["--cidfile", layout.container_id(places.attempt)]
    argv += user_words(engine, container.user, places.ours)
    argv += ["--workdir", "/"]
    if not container.image_id.startswith("rootfs:"):
        argv += ["--pull", "never"]
    if not container.copied:
        argv += ["--log-driver", "none"]
        for here, there, read_only in places.mounts():
            argv += ["--mount", mount(here, there, read_only)]
    if places.selinux:
        argv += ["--security-opt", "label=disable"]
    limits = (
        ("--network", container.network),
        ("--shm-size", container.shm),
        ("--memory", container.memory),
        ("--cpus", container.cpus),
    )
    for option, value in limits:
        if value:
            argv += [option, str(value)]
    argv += gpu
    argv += container.arguments
    argv += ["--entrypoint", container.python]
    argv += image_words(container.image_id)
    return [*argv, *INIT, layout.container_init(places.runner)]


def beside(
    container: "Container",
    name: "str",
    argv: "list[bytes]",
    work: "bytes",
    variables: "dict[bytes, bytes]",
    first: "dict[bytes, list[bytes]]",
) -> "list[bytes]":
    """A command in the container of a running run; its arguments are on a command line and are not secret."""
    command = [as_bytes(container.program), b"exec", b"--interactive", b"--workdir", work]
    env = {**variables, b"HOME": b"/tmp"}
    if b"AZUREML_NATIVE_SHARE_DIRECTORY" in env:
        env[b"AZUREML_NATIVE_SHARE_DIRECTORY"] = SHARE.encode() + b"/"
    env[b"PYTHONPATH"] = b":".join(first[b"PYTHONPATH"])
    for variable, value in sorted(env.items()):
        command += [b"--env", variable + b"=" + value]
    command.append(as_bytes(name))
    if not first[b"PATH"]:
        return command + argv
    look_first = b'PATH="$1:$PATH"; export PATH; shift; exec "$@"'
    return [*command, b"/bin/sh", b"-c", look_first, b"sh", b":".join(first[b"PATH"]), *argv]


def image_words(image_id: "str") -> "list[str]":
    """The image, or a plain folder under a throw-away layer."""
    return ["--rootfs", image_id[len("rootfs:") :] + ":O"] if image_id.startswith("rootfs:") else [image_id]


def is_root(user: "str") -> "bool":
    """``user`` as an engine reads it: a name or a number, perhaps with a group."""
    return is_root_name(user.split(":")[0])


def is_root_name(name: "str") -> "bool":
    """Whether a user or group of a container is root: by name, or by 0 as engines read numbers (00, +0).

    Another name can stand for 0 in the image's own /etc/passwd; that is not known here.
    """
    number = name.strip().lstrip("+-")
    return name.strip() == "root" or (number != "" and number.strip("0") == "")


def mount(here: "str", there: "str", read_only: "bool") -> "str":
    """As both engines read it: comma-separated values, so that a path may hold any character."""
    fields = ["type=bind", "source=%s" % here, "target=%s" % there] + ["readonly"] * read_only
    return ",".join('"%s"' % field.replace('"', '""') if set(field) & set(',"\n') else field for field in fields)


def user_words(engine: "dict[str, object]", user: "str", ours: "tuple[int, int]") -> "list[str]":
    """The caller, so that what is written is theirs. Where the engine is the caller's own, root is the caller."""
    if engine.get("rootless") and engine["name"] == "docker":
        return ["--user", user or "0:0"]
    keep = ["--userns", "keep-id"] if engine.get("rootless") and not is_root(user) else []
    return [*keep, "--user", user or "%d:%d" % ours]


def lacks_user(engine: "dict[str, object]", container: "Container", uid: "int") -> "bool":
    """Whether the caller is a number without a name in the container; podman gives it one."""
    is_own = engine["name"] == "docker" and not engine.get("rootless") and not container.user
    return is_own and uid != 0 and not container.copied


def users_text(uid: "int", gid: "int", name: "str") -> "str":
    """Lines of a passwd file: the caller, and whom every system has."""
    rows = ("root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin")
    return "\n".join([*rows, "%s:x:%d:%d::/tmp:/bin/sh" % (name, uid, gid), ""])


def has_selinux() -> "bool":
    """Whether labels would keep containers from the caller's files."""
    return os.path.exists("/sys/fs/selinux/enforce")
