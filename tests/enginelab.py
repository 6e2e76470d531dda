"""Real container engines for the tests: dockerd and podman of their own, here or on a machine of the ssh lab.

::

    with Docker(tmp_path) as docker:                    # about a second; the image base:py is in it
        docker.run("run", "--rm", IMAGE, "python3", "-V")
        subprocess.run(["docker", "ps"], env={**os.environ, **docker.environment})
        docker.kill(); docker.start()                   # SIGKILL for the daemon, and the next one
    with Docker(lab["gpu1"]) as docker:                 # /var/run/docker.sock there, open to all its users
        laptop.run("ssh", ada.login, "docker", "ps")
    with Podman(tmp_path) as podman:                    # as root; rootless=True: as an account that only it has
        podman.run("run", "--rm", "--network", "none", IMAGE, "id")
    with Podman(lab["gpu1"]) as podman:
        podman.admit(ada)                               # now ``podman`` works rootless for her, with the image

Nothing is pulled: the image is a Debian made by debootstrap, once, kept below ``.tools`` together with what each engine
makes of it.

Here, an engine runs in a *sandbox*: its own network, mounts, /run and /var/lib/docker, and otherwise the machine as it
is, with the machine's process ids. So every engine has its usual places, several never meet, and bind mounts lead to
the machine's own files. A sandbox has no way out of it unless ``internet`` is requested: then slirp4netns carries what
containers send, on any kind of network, and this machine's loopback is 10.0.2.2 there.

Control groups lie in a part of the machine's tree that is the engine's own. Sandboxes and control groups are held by
processes that end when their standard input does, and clear up first: it all vanishes with the process that made it,
however that ends. This file is also the program that those processes run.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sshlab import ENVIRONMENT, CommandFailed, Host, NotPossibleHere, Unavailable, check_root_is_a_mount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from sshlab import Client, User

IMAGE = "base:py"
TOOLS = Path(__file__).resolve().parents[1] / ".tools"
PACKAGES = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "runc": "runc",
    "podman": "podman",
    "debootstrap": "debootstrap",
    "newuidmap": "uidmap",
    "slirp4netns": "slirp4netns",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "iptables": "iptables",
}
PATIENCE = 120.0
_NAMESERVER = "nameserver 10.0.2.3\n"  # of slirp4netns
SUBORDINATES = 65536
OWN_HOME = Path("/run/lab")  # of a sandbox's ordinary account
CLONE_NEWCGROUP = 0x02000000

# crun refuses hybrid control groups, and root may lack the right to raise limits: neither is what a test is about.
CONTAINERS_CONF = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
"""


def base_rootfs() -> Path:
    """A folder with a small Debian: python3 (no ``python``), venv, pip, and the certificates this machine trusts."""
    _check_this_machine("debootstrap")
    return _made_once("rootfs-bookworm", _make_rootfs)


class Docker:
    """A dockerd that runs, with its own containerd; ``IMAGE`` is in it unless ``empty``.

    ``where`` is a folder for its socket, or a host of the ssh lab. ``settings`` go into daemon.json.
    """

    def __init__(
        self,
        where: Path | Host,
        *,
        live_restore: bool = False,
        internet: bool = False,
        empty: bool = False,
        **settings: Any,
    ) -> None:
        _check_this_machine("dockerd", "docker", "nsenter", "ip", "iptables", *["slirp4netns"] * internet)
        self._settings = {"live-restore": live_restore, **settings}
        self._content = None if empty else _made_once("docker-base", _make_docker_base)
        self._place = _place(where, internet)
        self.socket = where / "docker.sock" if isinstance(where, Path) else Path("/run/docker.sock")
        self.environment = {"DOCKER_HOST": f"unix://{self.socket}"} if isinstance(where, Path) else {}
        self.control_groups = self._place.cgroups.parts
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Docker:
        return self

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of the docker program, where the engine is."""
        return self._place.run("env", "-", *_words({**ENVIRONMENT, **self.environment}), "docker", *argv, check=check)

    def load(self, rootfs: Path, tag: str = IMAGE) -> None:
        """Import a folder as an image."""
        docker = [*self._place.prefix, "env", *_words(self.environment), "docker", "import", "-", tag]
        _pack(rootfs, docker)

    def start(self) -> None:
        """The daemon, after a stop, a kill, or a reboot of the machine that it is on; returns when it answers."""
        if self._process:
            self._process.wait(PATIENCE)
        if not self._place.path("/run/lab-docker").exists():
            self._furnish()
        script = f"{self._place.cgroups.join()}\nexec dockerd -H unix://{self.socket}"
        with self._place.path("/run/docker.log").open("ab") as log:
            argv = [*self._place.prefix, "sh", "-ec", script]
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True
            )
        _eventually(lambda: self._answers() or not self._running(), "dockerd answers")
        if not self._running():
            raise Unavailable(f"dockerd does not start: {self.log()[-2000:]}")
        self._place.path(self.socket).chmod(0o666)

    def stop(self) -> None:
        """As the machine's service manager does it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, which its containerd does not survive either; containers go on."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def files(self, place: str | Path) -> Path:
        """Where this process finds a place that the engine sees."""
        return self._place.path(place)

    def log(self) -> str:
        """What the daemon wrote."""
        return self.files("/run/docker.log").read_text(errors="replace")

    def close(self) -> None:
        """End the daemon and all containers, and leave nothing."""
        self._place.close()
        if self._process:
            self._process.wait(PATIENCE)

    def _furnish(self) -> None:
        folders = "/var/lib/docker /etc/docker /opt/containerd"
        mounts = [f"mkdir -p {folders}"] + [f"mount -t tmpfs -o mode=711 lab {one}" for one in folders.split()]
        self._place.run("sh", "-ec", "\n".join(mounts))
        self._place.install(
            "/etc/docker/daemon.json",
            json.dumps({"cgroup-parent": f"{self._place.cgroups.inner}/docker", **self._settings}),
        )
        if self._content:
            _copy(self._content, self._place.path("/var/lib/docker"))
        self._place.path("/run/lab-docker").touch()

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(PATIENCE)
            connection.connect(str(self._place.path(self.socket)))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(4096)
        return False

    def _running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _end(self, number: int) -> None:
        if self._process and self._running():
            self._place.run("sh", "-c", f"kill -{int(number)} $(cat /run/docker.pid)")
            self._process.wait(PATIENCE)
            # Where init is slow to reap, the next dockerd would take the dead containerd for one to wait for.
            self._place.path("/run/docker/containerd/containerd.pid").unlink(missing_ok=True)


class Podman:
    """Podman with places of its own; ``IMAGE`` is in it.

    ``where`` is a folder for what it needs, or a host of the ssh lab, where ``podman`` is then as anywhere for root
    until the host reboots.
    With ``rootless`` (in a folder only) it belongs to an ordinary account of its own.
    """

    def __init__(
        self, where: Path | Host, *, rootless: bool = False, internet: bool = False, empty: bool = False
    ) -> None:
        needed = ["newuidmap"] if rootless or not isinstance(where, Path) else []
        _check_this_machine("podman", "runc", "nsenter", "ip", "iptables", *needed, *["slirp4netns"] * internet)
        content = None if rootless or empty else _made_once("podman-base", _make_podman_base)
        self._place = _place(where, internet)
        self.control_groups = self._place.cgroups.parts
        try:
            self._furnish(content)
            self.home, self.uid = (OWN_HOME, self._make_account()) if rootless else (Path("/root"), 0)
            self.prefix = self._inside()
            if rootless:
                self.load(base_rootfs())
            self.environment = self._shim(where) if isinstance(where, Path) else {}
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Podman:
        return self

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def run(self, *argv: str, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command of the podman program; ``prefix`` are the words before anything else to be run where that is."""
        return _run([*self.prefix, "env", "-C", str(cwd or "/"), "podman", *argv], check)

    def load(self, rootfs: Path, tag: str = IMAGE) -> None:
        """Import a folder as an image."""
        _pack(rootfs, [*self.prefix, "env", "-C", "/", "podman", "import", "--quiet", "-", tag])

    def admit(self, user: User, *, image: bool = True) -> None:
        """Let an ordinary user of the host run containers, and import the image for them."""
        for table in ("/etc/subuid", "/etc/subgid"):
            with self._place.path(table).open("a") as lines:
                lines.write(f"{user.name}:{user.uid * SUBORDINATES}:{SUBORDINATES}\n")
        if image:
            _pack(
                base_rootfs(),
                [*self._place.prefix, *_as_user(user.uid, user.home), "podman", "import", "-q", "-", IMAGE],
            )

    def files(self, place: str | Path) -> Path:
        """Where this process finds a place that the engine sees."""
        return self._place.path(place)

    def close(self) -> None:
        """End all containers, and leave nothing; those of a host's ordinary users end at its next reset."""
        if isinstance(self._place, _OnHost):
            with suppress(CommandFailed):  # the host may be down
                self._place.run("podman", "rm", "--all", "--force", "--time", "0")
        self._place.close()

    def _furnish(self, content: Path | None) -> None:
        folders = "/var/lib/containers /etc/containers"
        kept = "cp -a /etc/containers /run/lab-containers"
        mounts = [f"mkdir -p {folders}", kept] + [f"mount -t tmpfs -o mode=755 lab {one}" for one in folders.split()]
        self._place.run("sh", "-ec", "\n".join([*mounts, "cp -a /run/lab-containers/. /etc/containers"]))
        self._place.install("/etc/containers/containers.conf", CONTAINERS_CONF)
        self._place.install("/etc/containers/storage.conf", STORAGE_CONF)
        if content:
            _copy(content, self._place.path("/var/lib/containers"))

    def _inside(self) -> list[str]:
        joined = [*self._place.prefix, "sh", "-ec", f'{self._place.cgroups.join()}\nexec "$@"', "sh"]
        switch = [*_as_user(self.uid, str(self.home)), f"XDG_RUNTIME_DIR={self.home}"] if self.uid else []
        return [*joined, *switch]

    def _make_account(self) -> int:
        """An account whose user ids, the subordinate ones too, are those that the sandbox's keeper cleans up."""
        first, name = self._place.uids[0], "lab"
        for table, line in (
            ("passwd", f"{name}:x:{first}:{first}::{OWN_HOME}:/bin/sh"),
            ("group", f"{name}:x:{first}:"),
            ("subuid", f"{name}:{first + 1}:{SUBORDINATES}"),
            ("subgid", f"{name}:{first + 1}:{SUBORDINATES}"),
        ):
            real = Path("/etc", table)
            real.touch()
            self._place.install(f"/run/lab-{table}", f"{real.read_text()}{line}\n")
            self._place.run("mount", "--bind", f"/run/lab-{table}", str(real))
        home = self._place.path(OWN_HOME)
        home.mkdir(mode=0o700)
        os.chown(home, first, first)
        return first

    def _shim(self, folder: Path) -> dict[str, str]:
        """A ``podman`` for processes outside the sandbox."""
        program = shutil.which("podman", path=ENVIRONMENT["PATH"])
        shim = folder / "bin" / "podman"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(self.prefix)} env -C "$PWD" {program} "$@"\n')
        shim.chmod(0o755)
        return {"PATH": f"{shim.parent}:{os.environ['PATH']}"}


class _Place(Protocol):
    """Where an engine runs: a sandbox here, or a host of the ssh lab."""

    cgroups: _Cgroups
    uids: range

    @property
    def prefix(self) -> list[str]: ...
    def path(self, place: str | Path) -> Path: ...
    def install(self, place: str, text: str) -> None: ...
    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]: ...
    def close(self) -> None: ...


@contextmanager
def outside(*nodes: Client | Host) -> Iterator[str]:
    """Let machines of the ssh lab, and containers there, reach what this one reaches, beside the lab's own network.

    The value is the address of this machine's loopback there. It lasts until they are reset.
    """
    _check_this_machine("slirp4netns", "nsenter", "ip")
    with ExitStack() as stack:
        for node in nodes:
            net = [*node.held.enter("--net"), "--", "ip"]
            _run([*net, "route", "replace", "10.213.0.0/16", "via", f"10.213.{node.index}.254"])
            _run([*net, "route", "del", "default"])
            _run([*net, "-6", "route", "del", "default"])
            words = ["--configure", "--mtu=65520", "--exit-fd=0", "--ready-fd=1", str(node.held.pid), "tap0"]
            stack.callback(_Keeper("slirp4netns", *words).close)
            if isinstance(node, Host):
                node.program("/etc/resolv.conf", _NAMESERVER)
            else:
                node.run("sh", "-c", f"printf '{_NAMESERVER}' > /etc/resolv.conf")
        yield "10.0.2.2"


def _place(where: Path | Host, internet: bool) -> _Place:
    return _Room(where, internet) if isinstance(where, Path) else _OnHost(where)


class _Room:
    """Namespaces of a keeper's own, with the machine's files in them."""

    def __init__(self, folder: Path, internet: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._closing = ExitStack()
        try:
            self.cgroups = _Cgroups(whole=True)
            self._closing.callback(self.cgroups.close)
            unshare = ["unshare", "--net", "--mount", "--propagation", "slave", "--"]
            self._keeper = _Keeper(*unshare, *_program("room", os.readlink("/proc/self/ns/net"), *self.cgroups.parts))
            self._closing.callback(self._keeper.close)
            self.uids = _uids_of_room(self._keeper.pid)
            self.run("sh", "-ec", f"{_own_run(folder)}\n{self.cgroups.mounts()}\nip link set lo up")
            if internet:
                self._open_to_the_world()
        except BaseException:
            self.close()
            raise

    @property
    def prefix(self) -> list[str]:
        return ["nsenter", "--target", str(self._keeper.pid), "--mount", "--net", "--cgroup", "--"]

    def path(self, place: str | Path) -> Path:
        return Path(f"/proc/{self._keeper.pid}/root", str(place).lstrip("/"))

    def install(self, place: str, text: str) -> None:
        self.path(place).write_text(text)

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return _run([*self.prefix, *argv], check)

    def close(self) -> None:
        self._closing.close()

    def _open_to_the_world(self) -> None:
        words = ["--configure", "--mtu=65520", "--exit-fd=0", "--ready-fd=1", str(self._keeper.pid), "tap0"]
        self._closing.callback(_Keeper("slirp4netns", *words).close)
        self.install("/run/lab-resolv.conf", _NAMESERVER)
        self.run("mount", "--bind", "/run/lab-resolv.conf", "/etc/resolv.conf")


class _OnHost:
    """A host of the ssh lab; whatever is installed there makes its next reset a reinstallation."""

    uids = range(0)

    def __init__(self, host: Host) -> None:
        self._host = host
        self.cgroups = _Cgroups(whole=False)
        self._prepare()

    @property
    def prefix(self) -> list[str]:
        if not self.path("/run/lab-cgroups").exists():  # a new boot
            self._prepare()
        return [*self._host.held.enter("--all"), "--"]

    def path(self, place: str | Path) -> Path:
        return self._host.path(place)

    def install(self, place: str, text: str) -> None:
        self._host.program(place, text)

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return _run([*self.prefix, *argv], check)

    def close(self) -> None:
        self.cgroups.close()

    def _prepare(self) -> None:
        # In a user's namespace /proc can be mounted only if one is there with nothing mounted over parts of it.
        proc = "mkdir -m 700 /run/lab-proc\nmount -t proc proc /run/lab-proc"
        self._host.run("sh", "-ec", f"{self.cgroups.mounts()}\n{proc}\ntouch /run/lab-cgroups")


class _Cgroups:
    """A part of each of the machine's control group trees, with ``whole`` (a sandbox's) seen as the whole tree."""

    def __init__(self, *, whole: bool) -> None:
        name = f"lab-{uuid.uuid4().hex[:12]}"
        self.inner = "" if whole else f"/{name}"
        self._trees = _control_group_trees()
        if not self._trees:
            raise NotPossibleHere("no control groups are mounted below /sys/fs/cgroup")
        self.parts = [f"{tree.place}/{name}" for tree in self._trees]
        self._keeper = _Keeper(*_program("cgroups", *self.parts))

    def mounts(self) -> str:
        """Shell lines that mount the trees, as far as the control group namespace they are run in sees them."""
        # Runc would go by the older mounts if they were still there beneath.
        lines = ["! mountpoint -q /sys/fs/cgroup || umount --recursive --lazy /sys/fs/cgroup"]
        if self._trees[0].place != "/sys/fs/cgroup":
            lines.append("mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup")
        for tree in self._trees:
            options = f"-o {tree.options}" if tree.options else ""
            lines += [f"mkdir -p {tree.place}", f"mount -t {tree.kind} {options} cgroup {tree.place}"]
        return "\n".join(lines)

    def join(self) -> str:
        """Shell lines after which a shell, and what it starts, is in here: podman and runc want to see their own."""
        lines = []
        for tree in self._trees:
            part = f"{tree.place}{self.inner}"
            if tree.kind == "cgroup2":  # which has processes only in its leaves
                enable = (
                    f"for one in $(cat {part}/cgroup.controllers); do echo +$one > {part}/cgroup.subtree_control; done"
                )
                lines += [f"mkdir -p {part}/engine", f"echo $$ > {part}/engine/cgroup.procs", enable]
            else:
                lines.append(f"echo $$ > {part}/cgroup.procs")
        return "\n".join(lines)

    def close(self) -> None:
        self._keeper.close()


class _Tree(NamedTuple):
    kind: str
    place: str
    options: str


def _control_group_trees() -> list[_Tree]:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    controllers = {word for line in lines for word in line.split(":")[1].split(",") if word}
    found = []
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind in ("cgroup", "cgroup2") and place.startswith("/sys/fs/cgroup"):
            found.append(_Tree(kind, place, ",".join(word for word in options.split(",") if word in controllers)))
    return found


class _Keeper:
    """A program that has done its part when it says 1, and clears up when its standard input ends."""

    def __init__(self, *argv: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(argv, start_new_session=True, cwd="/", env=ENVIRONMENT, **pipes)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        if not ready or not os.read(self._process.stdout.fileno(), 1):
            self._process.kill()
            _, complaint = self._process.communicate()
            raise Unavailable(f"{argv[0]} does not start: {complaint.decode(errors='replace').strip()}")

    def close(self) -> None:
        _, complaint = self._process.communicate(timeout=PATIENCE)
        if self._process.returncode:
            raise CommandFailed(complaint.decode(errors="replace"))


def _program(kind: str, *words: str) -> list[str]:
    return [sys.executable, "-S", str(Path(__file__).resolve()), kind, *words]


def _own_run(folder: Path) -> str:
    """Shell lines for a /run with all that was there, except what engines would share; it ends with the sandbox."""
    return f"""
    mkdir -p {folder}/run
    mount -t tmpfs -o mode=755 run {folder}/run
    for entry in /run/*; do
      case "${{entry##*/}}" in
        containerd|docker*|containers|libpod|runc|crun|netns|podman) ;;
        *) if [ -d "$entry" ]; then mkdir {folder}/run/"${{entry##*/}}"; else : > {folder}/run/"${{entry##*/}}"; fi
           mount --rbind "$entry" {folder}/run/"${{entry##*/}}" ;;
      esac
    done
    mount --move {folder}/run /run
    rmdir {folder}/run"""


def _uids_of_room(keeper: int) -> range:
    """User ids that no account and no other sandbox has, below 2³¹: podman fails with greater ones."""
    first = 2**30 + keeper % 16000 * (SUBORDINATES + 1)
    return range(first, first + SUBORDINATES + 1)


def _as_user(uid: int, home: str) -> list[str]:
    switch = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--"]
    return [*switch, "env", "-i", "-C", home, f"HOME={home}", *_words(ENVIRONMENT)]


def _made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Below .tools, by the first process; others wait."""
    TOOLS.mkdir(exist_ok=True)
    made, making = TOOLS / name, TOOLS / f"{name}.making"
    with (TOOLS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(making, ignore_errors=True)
            make(making)
            making.rename(made)
    return made


def _make_rootfs(making: Path) -> None:
    include = "--include=python3,python3-venv,python3-pip,ca-certificates"
    # In a mount namespace: an interrupted debootstrap would leave its /proc mounted, and the next one would fail.
    _run(["unshare", "--mount", "debootstrap", "--variant=minbase", include, "bookworm", str(making)])
    for place in (
        "var/cache/apt",
        "var/lib/apt/lists",
        "var/log",
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
    ):
        shutil.rmtree(making / place)
        (making / place).mkdir()
    (making / "etc/mtab").symlink_to("/proc/mounts")  # podman would add these, which rootless it cannot
    (making / "etc/hosts").touch()
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        shutil.copy(certificates, making / certificates.relative_to("/"))


def _make_docker_base(making: Path) -> None:
    with TemporaryDirectory(prefix="lab-") as folder, Docker(Path(folder), empty=True) as docker:
        docker.load(base_rootfs())
        docker.stop()
        making.mkdir()
        _copy(docker.files("/var/lib/docker"), making)


def _make_podman_base(making: Path) -> None:
    with TemporaryDirectory(prefix="lab-") as folder, Podman(Path(folder), empty=True) as podman:
        podman.load(base_rootfs())
        making.mkdir()
        _copy(podman.files("/var/lib/containers"), making)


def _copy(source: Path, target: Path) -> None:
    _run(["cp", "-a", f"{source}/.", str(target)])


def _pack(rootfs: Path, reader: Sequence[str]) -> None:
    """Give a folder, as a tar archive, to a command."""
    with subprocess.Popen(["tar", "-C", str(rootfs), "-c", "."], stdout=subprocess.PIPE) as tar:
        _run(reader, stdin=tar.stdout)
    if tar.returncode:
        raise CommandFailed(f"tar of {rootfs} ended with {tar.returncode}")


def _words(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _check_this_machine(*programs: str) -> None:
    if not sys.platform.startswith("linux"):
        raise NotPossibleHere("container engines run on Linux")
    if os.geteuid():
        raise NotPossibleHere("only root can make the rooms that container engines live in")
    check_root_is_a_mount()
    missing = [program for program in programs if not shutil.which(program, path=ENVIRONMENT["PATH"])]
    if missing:
        packages = " ".join(PACKAGES[program] for program in missing)
        raise Unavailable(f"there is no {', '.join(missing)} (apt-get install {packages})")


def _eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.01)


def _run(argv: Sequence[str], check: bool = True, stdin: Any = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    pipes: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(argv, env=ENVIRONMENT, text=True, errors="surrogateescape", check=False, **pipes)
    if check and done.returncode:
        raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stdout}{done.stderr}".rstrip())
    return done


# From here on: what the keepers do.


def _main(kind: str, words: Sequence[str]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if kind == "cgroups":
        _keep_cgroups([Path(word) for word in words])
    else:
        _keep_room(words[0], words[1:])


def _keep_cgroups(parts: Sequence[Path]) -> None:
    for part in parts:
        part.mkdir()
        for name in ("cpuset.cpus", "cpuset.mems"):  # nothing could run in a new one
            if (part / name).exists() and not (part / "cgroup.controllers").exists():
                (part / name).write_text((part.parent / name).read_text())
    _wait_for_the_end()
    for part in parts:
        _eventually(lambda part=part: _gone(part), f"the end of {part}")  # type: ignore[misc]


def _gone(part: Path) -> bool:
    """Kill all that is in a part of the tree and take it away as far as that is possible by now."""
    for folder, _, _ in os.walk(part, topdown=False):
        with suppress(OSError):
            for pid in Path(folder, "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            Path(folder).rmdir()
    return not part.exists()


def _keep_room(outside: str, parts: Sequence[str]) -> None:
    if os.readlink("/proc/self/ns/net") == outside:
        raise SystemExit("not in a network namespace of its own")
    _take_as_whole_tree(parts)
    _wait_for_the_end()
    while pids := _inhabitants():
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _take_as_whole_tree(parts: Sequence[str]) -> None:
    """A control group namespace begins where its first process is. Then we go back: all in there will be killed."""
    for part in parts:
        Path(part, "cgroup.procs").write_text("0")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWCGROUP):
        raise SystemExit(f"no control group namespace: {os.strerror(ctypes.get_errno())}")
    for part in parts:
        Path(part).parent.joinpath("cgroup.procs").write_text("0")


def _inhabitants() -> list[int]:
    """All that runs in this sandbox's network, with a user id of this sandbox, or was started by such: but not us."""
    network, uids = os.stat("/proc/self/ns/net").st_ino, _uids_of_room(os.getpid())
    found: set[int] = set()
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        with suppress(OSError, IndexError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                pid, stat = int(entry.name), Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if stat[0] in "ZX":
                    continue
                parents[pid] = int(stat[1])
                if os.stat(entry.path).st_uid in uids or os.stat(f"{entry.path}/ns/net").st_ino == network:
                    found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return list(found)


def _wait_for_the_end() -> None:
    print("1", end="", flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
