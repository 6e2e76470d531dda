"""Real machines to log in to, made of namespaces: hosts with their own sshd, laptops, and a network to cut.

::

    with Lab() as lab:                                  # gpu1 and gpu2; about a second, so one for the whole session
        ada = lab["gpu1"].user("ada", password="s3cret", shell="/usr/bin/fish")
        laptop = lab.client(tmp_path / "user")          # about 0.1 s: one for each test
        ada.authorize(laptop.key())
        laptop.trust(lab["gpu1"])
        laptop.run("ssh", ada.login, "hostname")        # ada@gpu1.lab
        lab.cut(lab["gpu1"]); lab.heal(lab["gpu1"])     # dropped packets: a TCP stream goes on afterwards
        lab["gpu1"].reboot()                            # another boot id, an empty process table, homes as they were
        lab.reset()                                     # between tests: as after the start

A *host* has its own network, processes, host name, clock since boot and root folder: the machine's own root under an
overlay, so that nothing written there reaches the machine, with its own /home, /tmp, /var/tmp, /run and /dev/shm in
memory. The home of the user who runs the tests and this repository are hidden in it. A *client* has its own network,
/etc/hosts and home and otherwise sees the machine as it is; its processes keep their process ids. Both hang on a router
in a third place; the machine's own network is part of no link.

All of it is held by processes that end when their standard input does, so it vanishes with the process that made the
lab, however that ends. This file is also the program that those processes run.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from chaosproxy import Proxy

SHELF = Path("/mnt")  # in the router's own view only: the memory that hosts keep their disks in
REPOSITORY = Path(__file__).resolve().parents[1]
PYTHONS = Path.home() / ".pyenv" / "versions"
PROGRAMS = ("unshare", "nsenter", "setpriv", "ip", "tc", "iptables-restore", "ip6tables-restore", "sshd", "ssh-keygen")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
PATIENCE = 60.0

How = Literal["drop", "reset", "unreachable"]
Way = Literal["both", "to", "from"]


class Unavailable(Exception):
    """Why there can be no lab on this machine. In continuous integration it fails the test (tests/conftest.py)."""


class NotPossibleHere(Unavailable):
    """The kind of machine rules the lab out (no Linux, no root, a chroot): a skipped test everywhere."""


class NoSuchPython(Exception):
    """This machine has no Python of that version for the lab."""


class CommandFailed(Exception):
    """A command in the lab ended with something else than 0."""


class Traffic(NamedTuple):
    """What has gone over a machine's cable since it last came up; a cut is behind its other end."""

    bytes_to: int
    packets_to: int
    bytes_from: int
    packets_from: int


class Process(NamedTuple):
    """``pid`` counts as the host does: signal it with ``host.kill``."""

    pid: int
    uid: int
    argv: tuple[str, ...]


class Entry(NamedTuple):
    """A file, folder or link, good for comparing. ``content`` is a digest, or where a link points."""

    kind: str
    mode: int
    uid: int
    content: str


class Link(NamedTuple):
    """What happens to packets to and from a machine."""

    how: How = "drop"
    way: Way | None = None
    loss: float = 0.0

    def rules(self, port: str, reject: Mapping[How, str]) -> Iterator[str]:
        """As iptables-restore reads them, for the router's forward chain."""
        sides = {"to": f"-o {port}", "from": f"-i {port}"}
        for way, side in sides.items():
            if self.way in (way, "both"):
                protocol = "-p tcp " if self.how == "reset" else ""
                yield f"-A FORWARD {side} {protocol}-j {reject[self.how]}"
            if self.loss:
                yield f"-A FORWARD {side} -m statistic --mode random --probability {self.loss} -j DROP"


class Sshd(NamedTuple):
    """How an sshd is set up; ``extra`` lines come first and so win over all others."""

    passwords: bool = True
    keys: bool = True
    sftp: bool = True
    banner: str = ""
    extra: tuple[str, ...] = ()

    def text(self) -> str:
        lines = [
            *self.extra,
            "HostKey /etc/ssh/lab_ed25519",
            "HostKey /etc/ssh/lab_rsa",
            "PidFile /run/sshd.pid",
            "UsePAM no",
            "UseDNS no",
            "PrintMotd no",
            "AcceptEnv LANG LC_*",
            "MaxStartups 1000",
            "KbdInteractiveAuthentication no",
            f"PasswordAuthentication {'yes' if self.passwords else 'no'}",
            f"PubkeyAuthentication {'yes' if self.keys else 'no'}",
        ]
        lines += ["Subsystem sftp internal-sftp"] if self.sftp else []
        lines += ["Banner /etc/ssh/lab_banner"] if self.banner else []
        lines += ["PerSourcePenalties no"] if _openssh_version() >= (9, 8) else []
        return "\n".join(lines) + "\n"


class Lab:
    """The network and everything on it. ``lab["gpu1"]`` is a host; ``shares`` are folders every host sees, by place.

    Raises ``Unavailable`` with one reason where the machine does not permit it.
    """

    def __init__(self, hosts: Sequence[str] = ("gpu1", "gpu2"), shares: Mapping[str, Path] | None = None) -> None:
        _check_this_machine()
        self._lock = threading.Lock()
        self._links: dict[int, Link] = {}
        self._names: dict[str, list[str]] = {}
        self._clients: list[Client] = []
        self._closing = ExitStack()
        self.shares = {**_pythons(), **(shares or {})}
        self.hosts: dict[str, Host] = {}
        try:
            self._router = _Held("router", {}, ["--net", "--mount"])
            self._closing.callback(self._router.close)
            self.shelf = self._router.path(SHELF)
            self._write_names()
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._start_host, range(1, len(hosts) + 1), hosts))
            self.hosts = {name: self.hosts[name] for name in hosts}
            self._forget_changed_names()
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, kind: type[BaseException] | None, what: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for client in list(self._clients):
            client.close()
        for host in self.hosts.values():
            host.power_off()
        self._closing.close()

    def reset(self) -> None:
        """As after the start: no clients, no users, links whole, names and sshd as they were. 10 ms to 0.5 s."""
        for client in list(self._clients):
            client.close()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Host.reset, self.hosts.values()))
        for host in self.hosts.values():
            self._shape(host, 0)
        self._links.clear()
        self._apply_links()
        self._forget_changed_names()

    def client(self, home: Path, name: str = "laptop") -> Client:
        """A machine with holdfast on it, whose user's home is ``home`` (made if need be); gone at the next reset."""
        taken = {client.index for client in self._clients}
        index = next(number for number in range(100, 255) if number not in taken)
        client = Client(self, index, name, home)
        self._clients.append(client)
        return client

    # The network

    def cut(self, node: Node, how: How = "drop", one_way: Literal["to", "from"] | None = None) -> None:
        """Nothing passes to and from a machine (``one_way``: only to it, or only from it) until it is healed.

        ``drop`` loses packets silently: a TCP stream goes on after healing. ``reset`` answers each TCP packet with a
        reset: streams break, connections are refused. ``unreachable`` answers that there is no way to the host.
        """
        self._set_link(node, self._link(node)._replace(how=how, way=one_way or "both"))

    def heal(self, node: Node) -> None:
        """Whole again: undoes ``cut`` and ``slow``."""
        self._set_link(node, Link())
        self._shape(node, 0)

    def slow(self, node: Node, bytes_per_second: int = 0, loss: float = 0.0) -> None:
        """A rate in each direction (0: as fast as it goes), and the part of all packets that is lost (0.2: a fifth)."""
        self._set_link(node, self._link(node)._replace(loss=loss))
        self._shape(node, bytes_per_second)

    def traffic(self, node: Node) -> Traffic:
        shown = _checked([*self._router.enter("--net"), "ip", "-s", "-j", "link", "show", "dev", node.port])
        seen = json.loads(shown)[0]["stats64"]
        to, back = seen["tx"], seen["rx"]
        return Traffic(to["bytes"], to["packets"], back["bytes"], back["packets"])

    def name(self, name: str, *where: Node | str) -> None:
        """Let a name mean these machines or addresses, everywhere in the lab; nothing: it no longer resolves."""
        self._names[name] = [text for one in where for text in ([one] if isinstance(one, str) else one.addresses)]
        self._write_names()

    def _forget_changed_names(self) -> None:
        self._names = {host.hostname: host.addresses for host in self.hosts.values()}
        self._write_names()

    def _write_names(self) -> None:
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        lines += [f"{address} {name}" for name, addresses in self._names.items() for address in addresses]
        # In place: it is mounted over /etc/hosts everywhere, and a new file would not be.
        (self.shelf / "hosts").write_text("\n".join(lines) + "\n")

    def _start_host(self, index: int, name: str) -> None:
        self.hosts[name] = Host(self, index, name)
        self.hosts[name].boot()

    def _link(self, node: Node) -> Link:
        return self._links.get(node.index, Link())

    def _set_link(self, node: Node, link: Link) -> None:
        with self._lock:
            self._links[node.index] = link
        self._apply_links()

    def _apply_links(self) -> None:
        with self._lock:
            running = [self._start_rules(program, rejections) for program, rejections in REJECTIONS.items()]
            for process in running:
                _, complaint = process.communicate(timeout=PATIENCE)
                if process.returncode:
                    raise CommandFailed(f"iptables-restore: {complaint}")

    def _start_rules(self, program: str, reject: Mapping[How, str]) -> subprocess.Popen[str]:
        rules = [rule for index, link in self._links.items() for rule in link.rules(f"p{index}", reject)]
        text = "\n".join(["*filter", ":FORWARD ACCEPT [0:0]", *rules, "COMMIT", ""])
        argv = [*self._router.enter("--net"), program, "-w"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        process = subprocess.Popen(argv, env=ENVIRONMENT, text=True, **pipes)
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.flush()
        return process

    def _shape(self, node: Node, bytes_per_second: int) -> None:
        both = ((self._router, node.port), (node.held, "eth0"))
        for held, device in both:
            if bytes_per_second:
                rate = ["tbf", "rate", f"{bytes_per_second}bps", "burst", "8k", "latency", "400ms"]
                _checked([*held.enter("--net"), "tc", "qdisc", "replace", "dev", device, "root", *rate])
            elif node.slowed:
                _checked([*held.enter("--net"), "tc", "qdisc", "del", "dev", device, "root"])
        node.slowed = bool(bytes_per_second)

    def wire(self, node: Node) -> None:
        """Put a cable between the router and a machine that has just come up."""
        net, net6, port = f"10.213.{node.index}", f"fd13:213:{node.index:x}", node.port
        self._ip(
            self._router,
            f"link add {port} type veth peer name eth0 netns {node.held.pid}",
            f"addr add {net}.254/24 dev {port}",
            f"addr add {net6}::fe/64 dev {port} nodad",
            f"link set {port} up",
        )
        self._ip(node.held, "link set lo up", "link set eth0 up", *self._addressing(node))

    def readdress(self, node: Node) -> None:
        self._ip(node.held, "addr flush dev eth0 scope global", *self._addressing(node))

    def unplug(self, node: Node) -> None:
        """Take the cable away at once: whatever the machine still sends while it shuts down is lost."""
        with suppress(CommandFailed):
            self._ip(self._router, f"link del {node.port}")
        node.slowed = False

    def _addressing(self, node: Node) -> list[str]:
        net, net6 = f"10.213.{node.index}", f"fd13:213:{node.index:x}"
        return [
            f"addr add {node.address}/24 dev eth0",
            f"addr add {node.address6}/64 dev eth0 nodad",
            f"route replace default via {net}.254",
            f"route replace default via {net6}::fe",
        ]

    def _ip(self, held: _Held, *lines: str) -> None:
        _checked([*held.enter("--net"), "ip", "-batch", "-"], "\n".join(lines) + "\n")

    def hold(self, kind: str, spec: Mapping[str, Any], namespaces: Sequence[str]) -> _Held:
        """A new machine's first process, which starts in the router's view of the disk: the shelf is there."""
        return _Held(kind, spec, namespaces, self._router.enter("--mount"))


REJECTIONS: dict[str, dict[How, str]] = {
    "iptables-restore": {
        "drop": "DROP",
        "reset": "REJECT --reject-with tcp-reset",
        "unreachable": "REJECT --reject-with icmp-host-unreachable",
    },
    "ip6tables-restore": {
        "drop": "DROP",
        "reset": "REJECT --reject-with tcp-reset",
        "unreachable": "REJECT --reject-with icmp6-addr-unreachable",
    },
}


class Node:
    """A machine on the lab's network."""

    held: _Held

    def __init__(self, lab: Lab, index: int, name: str) -> None:
        self.lab = lab
        self.index = index
        self.name = name
        self.hostname = f"{name}.lab"
        self.port = f"p{index}"
        self.slowed = False
        self.number = 1

    @property
    def address(self) -> str:
        return f"10.213.{self.index}.{self.number}"

    @property
    def address6(self) -> str:
        return f"fd13:213:{self.index:x}::{self.number:x}"

    @property
    def addresses(self) -> list[str]:
        return [self.address, self.address6]


class Host(Node):
    """A machine to log in to. Paths given to its methods are as the host sees them."""

    def __init__(self, lab: Lab, index: int, name: str) -> None:
        super().__init__(lab, index, name)
        self.users: dict[str, User] = {}
        self.boot_id = ""
        self.up = False
        self._disk = lab.shelf / name
        self._disk.mkdir()
        self._sshd = Sshd()
        self._touched = False
        self._next_uid = 20001
        self._make_keys()

    # Accounts

    def user(self, name: str = "ada", password: str | None = None, shell: str = "/bin/bash") -> User:
        """A new account with an empty home; one of that name that was there is removed with all its processes."""
        if name in self.users:
            self.remove_user(name)
        user = User(self, name, self._next_uid, password, shell)
        self._next_uid += 1
        self.users[name] = user
        self._write_accounts()
        home = self.path(user.home)
        home.mkdir(mode=0o700)
        os.chown(home, user.uid, user.uid)
        return user

    def remove_user(self, name: str) -> None:
        user = self.users.pop(name)
        self.end_processes(user)
        for place in user.mounted:
            self.run("umount", "--lazy", place)
        for place in self.files(user):
            _remove(self.path(place))
        _remove(self.path(user.home))
        self._write_accounts()

    def end_processes(self, user: User) -> None:
        """Kill all that an account runs, its ssh sessions too."""
        uid = str(user.uid)
        # As the user, "everything I may signal" is exactly that, and nothing can fork its way out of it.
        self.run("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "sh", "-c", "kill -KILL -1", check=False)
        _eventually(lambda: not self.processes(user), f"{user.name}'s processes on {self.name} do not end")

    # Looking and doing

    def path(self, place: str | Path) -> Path:
        """Where this process can read and write a place of the host. Beware of absolute links: they lead elsewhere."""
        return self.held.path(place)

    def run(self, *argv: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command as root. Raises ``CommandFailed`` with what it said unless ``check`` is off."""
        return _run([*self.held.enter("--all"), "--", *argv], stdin, check)

    def sudo(self, user: User, *argv: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command as a user, in their home, with the environment of a login but no shell in between."""
        uid = str(user.uid)
        switch = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        path = "PATH=/usr/local/bin:/usr/bin:/bin"
        environment = ["env", "-i", "-C", user.home, f"HOME={user.home}", f"USER={user.name}", "LANG=C.UTF-8", path]
        return self.run(*switch, *environment, *argv, check=check, stdin=stdin)

    def processes(self, user: User | None = None) -> list[Process]:
        """All that runs (zombies do not), or all of one user, the sshd that serves them included."""
        seen = [_process(entry) for entry in self.path("/proc").iterdir() if entry.name.isdigit()]
        return [process for process in seen if process and (user is None or process.uid == user.uid)]

    def files(self, user: User) -> dict[str, Entry]:
        """All below a user's home, and all of theirs in world-writable folders: for before and after."""
        found = {}
        for name, path in self._written():
            with suppress(FileNotFoundError):
                if name.startswith(f"{user.home}/") or path.lstat().st_uid == user.uid:
                    found[name] = _entry(path)
        found.pop(user.home, None)
        return found

    def sockets(self, user: User) -> list[str]:
        """A user's TCP sockets, as the kernel writes their local address and state."""
        lines = [line.split() for kind in ("tcp", "tcp6") for line in self.net(kind)[1:]]
        return sorted(f"{line[1]} {line[3]}" for line in lines if int(line[7]) == user.uid)

    def net(self, table: str) -> list[str]:
        """The lines of the host's /proc/net/``table``: ``tcp``, ``snmp`` …"""
        return Path(f"/proc/{self.held.pid}/net/{table}").read_text().splitlines()

    def holding(self, secret: bytes) -> list[str]:
        """Every file that has these bytes in it, of all that was written on this host and is still there."""
        found = []
        for name, path in self._written():
            with suppress(FileNotFoundError):
                if secret in os.fsencode(name) or secret in _bytes(path):
                    found.append(name)
        return sorted(found)

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        self.run("sh", "-c", f"kill -{int(number)} {pid}")

    # What the host is like

    def configure(
        self,
        passwords: bool = True,
        keys: bool = True,
        sftp: bool = True,
        banner: str = "",
        extra: Sequence[str] = (),
    ) -> None:
        """Set sshd up anew; what is not named is as in the beginning. Sessions go on under the old set-up."""
        self._sshd = Sshd(passwords, keys, sftp, banner, tuple(extra))
        self.restart_sshd()

    def restart_sshd(self) -> None:
        """End the listener, start another. Sessions live on."""
        with suppress(FileNotFoundError, ValueError, ProcessLookupError, CommandFailed):
            old = int(self.path("/run/sshd.pid").read_text())
            self.kill(old)
            # Another one cannot have the port before this one has let go of it.
            _eventually(lambda: old not in [one.pid for one in self.processes()], f"the end of sshd of {self.name}")
        self.start_sshd()

    def kill_sshd(self) -> None:
        """SIGKILL for the listener and for the sshd of every session; connections are refused afterwards."""
        while pids := [str(process.pid) for process in self.processes() if _is_sshd(process)]:
            self.run("sh", "-c", f"kill -KILL {' '.join(pids)}", check=False)

    def start_sshd(self) -> None:
        pid_file = self.path("/run/sshd.pid")
        pid_file.unlink(missing_ok=True)
        self.path("/etc/ssh/lab_banner").write_text(self._sshd.banner)
        self.path("/etc/ssh/lab.conf").write_text(self._sshd.text())
        self.run("/usr/sbin/sshd", "-f", "/etc/ssh/lab.conf", "-E", "/var/log/sshd.log")
        # It is written when the port is open.
        _eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), f"sshd of {self.name}")

    def new_keys(self) -> None:
        """Other host keys, as after a reinstallation or somewhere else."""
        self._make_keys()
        self._place_keys()
        self.restart_sshd()

    def public_key(self, kind: Literal["ed25519", "rsa"] = "ed25519") -> str:
        """``ssh-ed25519 AAAA…``, as known_hosts has it."""
        return " ".join((self._disk / f"{kind}.pub").read_text().split()[:2])

    def fingerprint(self, kind: Literal["ed25519", "rsa"] = "ed25519") -> str:
        """``SHA256:…``"""
        return _checked(["ssh-keygen", "-l", "-f", str(self._disk / f"{kind}.pub")]).split()[1]

    def log(self) -> str:
        """What sshd wrote."""
        return self.path("/var/log/sshd.log").read_text(errors="replace")

    def program(self, place: str, text: str) -> None:
        """Install a program, such as an ``nvidia-smi`` that says what a test wants; gone at the next reset."""
        self._touched = True
        path = self.path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def remove_programs(self, *patterns: str) -> None:
        """Take programs off the usual paths (``docker*``); back at the next reset."""
        self._touched = True
        for folder in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"):
            for pattern in patterns:
                for path in self.path(folder).glob(pattern):
                    path.unlink()

    def only_python(self, version: str | None) -> None:
        """Leave one Python, as ``/usr/bin/python3``: "3.6", or None for none at all. Back at the next reset.

        Raises ``NoSuchPython`` where this machine has none of that version in ~/.pyenv.
        """
        found = sorted(PYTHONS.glob(f"{version}.*")) if version else []
        if version and not found:
            raise NoSuchPython(f"there is no Python {version} in ~/.pyenv/versions")
        self.remove_programs("python*", "pypy*")
        for home in found[:1]:
            self.path("/usr/bin/python3").symlink_to(home / "bin" / f"python{version}")

    def remount(self, place: str, options: str) -> None:
        """Change a mount's options: ``host.remount("/tmp", "noexec")``, ``host.remount("/tmp", "size=64k")``."""
        self._touched = True
        self.run("mount", "-o", f"remount,{options}", place)

    # Life and death

    def reboot(self) -> None:
        """The power goes and comes back: peers hear nothing, /home and /var/tmp and all installed things are kept."""
        self.power_off()
        # The time since boot is that of the machine around it: what was written before must look older than that.
        for path in (self._disk / "home").rglob("runs/*/a*/alive"):
            os.utime(path, (time.time() - 3600, time.time() - 3600))
        self.boot()

    def power_off(self) -> None:
        """All processes are gone at once, without a packet to the network."""
        if self.up:
            self.up = False
            self.lab.unplug(self)
            self.held.kill()

    def boot(self) -> None:
        self.boot_id = str(uuid.uuid4())
        spec = {
            "name": self.name,
            "boot_id": self.boot_id,
            "shares": {place: str(source) for place, source in self.lab.shares.items()},
            "hidden": [str(place) for place in (Path.home(), REPOSITORY) if place != Path("/")],
        }
        namespaces = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", *clock_since_boot()]
        self.held = self.lab.hold("host", spec, namespaces)
        self.up = True
        self.lab.wire(self)
        self._place_keys()
        self._write_accounts()
        self.start_sshd()

    def reinstall(self) -> None:
        """A new disk and a boot: users, programs and settings are gone; the host keys stay."""
        self.power_off()
        for folder in ("upper", "work", "home", "vartmp"):
            shutil.rmtree(self._disk / folder)
        self.users.clear()
        self._sshd = Sshd()
        self._touched = False
        self.boot()

    def reset(self) -> None:
        if self._touched or not self.up or not self.path("/run/sshd.pid").exists():
            self.reinstall()
            return
        for name in list(self.users):
            self.remove_user(name)
        listening = int(self.path("/run/sshd.pid").read_text()) in {process.pid for process in self.processes()}
        if self._sshd != Sshd() or not listening:
            self.configure()

    def _make_keys(self) -> None:
        for kind, bits in (("ed25519", "256"), ("rsa", "2048")):
            path = self._disk / kind
            _remove(path)
            _checked(["ssh-keygen", "-q", "-t", kind, "-b", bits, "-N", "", "-C", self.hostname, "-f", str(path)])

    def _place_keys(self) -> None:
        for kind in ("ed25519", "rsa"):
            path = self.path(f"/etc/ssh/lab_{kind}")
            path.write_bytes((self._disk / kind).read_bytes())
            path.chmod(0o600)

    def _write_accounts(self) -> None:
        tables: dict[str, list[str]] = {"passwd": [], "shadow": [], "group": []}
        for user in self.users.values():
            tables["passwd"].append(f"{user.name}:x:{user.uid}:{user.uid}::{user.home}:{user.shell}")
            tables["shadow"].append(f"{user.name}:{user.secret}:19000:0:99999:7:::")
            tables["group"].append(f"{user.name}:x:{user.uid}:")
        for table, lines in tables.items():
            machines = [line for line in Path("/etc", table).read_text().splitlines() if line]
            self.path(f"/etc/{table}").write_text("\n".join([*machines, *lines, ""]))

    def _written(self) -> Iterator[tuple[str, Path]]:
        """All that is on this host and did not come with the machine, as the host names it and where we find it."""
        memory = [(self.path(place), place) for place in ("/home", "/tmp", "/var/tmp", "/run", "/dev/shm")]
        for top, shown in ((self._disk / "upper", ""), *memory):
            for folder, folders, files in os.walk(top):
                for name in (*folders, *files):
                    path = Path(folder, name)
                    yield f"{shown}/{path.relative_to(top)}", path


class User:
    """An account on a host. Relative paths start at the home; ``login`` is what one gives to ssh."""

    def __init__(self, host: Host, name: str, uid: int, password: str | None, shell: str) -> None:
        self.host = host
        self.name = name
        self.uid = uid
        self.password = password
        self.shell = shell
        self.home = f"/home/{name}"
        self.login = f"{name}@{host.hostname}"
        self.secret = _hashed(password) if password is not None else "*"
        self.mounted: list[str] = []

    def path(self, place: str | Path = "") -> Path:
        """Where this process can read and write it."""
        return self.host.path(Path(self.home, place))

    def write(self, place: str, text: str, mode: int = 0o644) -> None:
        """A file of the user's, such as a ``.bashrc`` that speaks; folders on the way are made."""
        path = self.path(place)
        for folder in reversed(path.relative_to(self.path()).parents[:-1]):
            made = self.path(folder)
            if not made.exists():
                made.mkdir(mode=0o700)
                os.chown(made, self.uid, self.uid)
        path.write_text(text)
        path.chmod(mode)
        os.chown(path, self.uid, self.uid)

    def authorize(self, private_key: Path) -> None:
        """Let the owner of a key in: the file beside it ends in ``.pub``."""
        known = self.path(".ssh/authorized_keys")
        before = known.read_text() if known.exists() else ""
        self.write(".ssh/authorized_keys", before + Path(f"{private_key}.pub").read_text(), 0o600)

    def run(self, *argv: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self.host.sudo(self, *argv, check=check, stdin=stdin)

    def processes(self) -> list[Process]:
        return self.host.processes(self)

    def files(self) -> dict[str, Entry]:
        return self.host.files(self)

    def sockets(self) -> list[str]:
        return self.host.sockets(self)

    def small_home(self, size: str = "1m", inodes: int = 0) -> None:
        """From now on the home is a disk of its own, this small, and empty (until a reboot)."""
        options = f"size={size},nr_inodes={inodes},uid={self.uid},gid={self.uid},mode=700"
        self.host.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", self.home)
        self.mounted.append(self.home)

    def read_only_home(self) -> None:
        """From now on nothing can be written below the home (until a reboot)."""
        self.host.run("mount", "--bind", self.home, self.home)
        self.host.run("mount", "-o", "remount,bind,ro", self.home)
        self.mounted.append(self.home)


class Client(Node):
    """A machine to work at. ``env`` is what its user's programs are started with; ssh finds ``home`` by itself."""

    def __init__(self, lab: Lab, index: int, name: str, home: Path) -> None:
        super().__init__(lab, index, name)
        self.home = home
        (home / ".ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
        self.env = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "USER": "root",
            "LANG": "C.UTF-8",
        }
        self._proxies = 0
        self._closing = ExitStack()
        files = lab.shelf / self.port
        files.mkdir()
        self._closing.callback(shutil.rmtree, files)
        (files / "passwd").write_text(_accounts_with_home(home))
        (files / "resolv.conf").write_text("")
        self.held = lab.hold("client", {"name": name, "files": self.port}, ["--net", "--mount", "--uts"])
        self._closing.callback(self.held.close)
        lab.wire(self)
        self._closing.callback(lab.unplug, self)

    def prefix(self, cwd: Path | None = None) -> list[str]:
        """The words before a command that make it run here, with the same process id. ``cwd`` must be said here."""
        return [*self.held.enter("--net", "--mount", "--uts"), "env", "-C", str(cwd or self.home), "--"]

    def popen(
        self, *argv: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[bytes]:
        """``subprocess.Popen`` on this machine; ``env`` is added to the client's own."""
        return subprocess.Popen([*self.prefix(cwd), *argv], env={**self.env, **(env or {})}, **more)

    def run(
        self, *argv: str, check: bool = True, stdin: str = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end. Raises ``CommandFailed`` with what it said unless ``check`` is off."""
        return _run([*self.prefix(cwd), *argv], stdin, check, self.env)

    def key(self, name: str = "id_ed25519", kind: str = "ed25519", passphrase: str = "") -> Path:
        """A new key pair in ``~/.ssh``; ssh tries the usual names by itself."""
        path = self.home / ".ssh" / name
        _checked(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", f"{self.name}-{name}", "-f", str(path)])
        return path

    def config(self, text: str) -> None:
        """The whole of ``~/.ssh/config``."""
        path = self.home / ".ssh" / "config"
        path.write_text(text)
        path.chmod(0o600)

    def trust(self, host: Host, *names: str) -> None:
        """Put a host's key into ``~/.ssh/known_hosts``, under its name and addresses or under those given."""
        with (self.home / ".ssh" / "known_hosts").open("a") as known:
            known.write(f"{','.join(names or (host.hostname, *host.addresses))} {host.public_key()}\n")

    def agent(self, *keys: Path) -> None:
        """Start an agent with these keys (without passphrase) in it; ``env`` tells where it is."""
        folder = self._closing.enter_context(TemporaryDirectory(prefix="agent-"))
        self.env["SSH_AUTH_SOCK"] = f"{folder}/agent"
        process = self.popen("ssh-agent", "-D", "-a", f"{folder}/agent", stdout=subprocess.DEVNULL)
        self._closing.callback(process.wait)
        self._closing.callback(process.kill)
        _eventually(Path(folder, "agent").exists, "ssh-agent")
        for key in keys:
            self.run("ssh-add", "-q", str(key))

    def move(self) -> str:
        """Another address, as after sleep in another network; connections from the old one lead nowhere."""
        self.number = self.number % 200 + 1
        self.lab.readdress(self)
        return self.address

    def proxy(self, host: Host, name: str = "far.lab", **settings: Any) -> Proxy:
        """A proxy on this client before a host's sshd, reached as ``name``: see ``chaosproxy.Proxy`` for settings."""
        from chaosproxy import Proxy

        self._proxies += 1
        local = f"127.0.{self.index}.{self._proxies}"
        proxy = Proxy(self.prefix(), f"{local}:22", f"{host.address}:22", **settings)
        self._closing.callback(proxy.close)
        self.lab.name(name, local)
        return proxy

    def close(self) -> None:
        """Kill all that runs here, and be gone."""
        if self in self.lab._clients:
            self.lab._clients.remove(self)
            self._closing.close()


class _Held:
    """Namespaces that live as long as their first process, which lives as long as this one or until it is closed."""

    def __init__(
        self, kind: str, spec: Mapping[str, Any], namespaces: Sequence[str], where: Sequence[str] = ()
    ) -> None:
        outside = os.readlink("/proc/self/ns/net")
        program = [
            sys.executable,
            "-I",
            "-S",
            str(Path(__file__).resolve()),
            kind,
            json.dumps({"outside": outside, **spec}),
        ]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        argv = [*where, "unshare", *namespaces, "--", *program]
        self._process = subprocess.Popen(argv, start_new_session=True, cwd="/", env=ENVIRONMENT, text=True, **pipes)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        said = self._process.stdout.readline() if ready else ""
        if not said:
            self._process.kill()
            _, complaint = self._process.communicate()
            raise Unavailable(f"the lab's {kind} does not start: {complaint.strip() or 'it says nothing'}")
        self.pid = int(said)

    def enter(self, *namespaces: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), *namespaces]

    def path(self, place: str | Path) -> Path:
        return Path(f"/proc/{self.pid}/root", str(place).lstrip("/"))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE)


def _check_this_machine() -> None:
    if not sys.platform.startswith("linux"):
        raise NotPossibleHere("the ssh lab is made of Linux namespaces")
    if os.geteuid():
        raise NotPossibleHere("only root can make the network namespaces of the ssh lab")
    check_root_is_a_mount()
    missing = [program for program in PROGRAMS if not shutil.which(program, path=ENVIRONMENT["PATH"])]
    if missing:
        packages = "openssh-server openssh-client iproute2 iptables util-linux"
        raise Unavailable(f"the ssh lab needs {', '.join(missing)} (apt-get install {packages})")


def check_root_is_a_mount() -> None:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    if "/" not in {line.split()[4] for line in mounts}:
        raise NotPossibleHere("a chroot cannot have mount namespaces below it; the root that tools/fresh.sh makes can")


def _pythons() -> dict[str, Path]:
    """At their own place, which is compiled into them."""
    return {str(PYTHONS): PYTHONS} if PYTHONS.is_dir() else {}


def _openssh_version() -> tuple[int, ...]:
    said = _run(["ssh", "-V"], "", check=True).stderr
    digits = said.removeprefix("OpenSSH_").partition("p")[0]
    return tuple(map(int, digits.split(".")))


def clock_since_boot() -> list[str]:
    """A host's clocks since boot begin at nothing, where the kernel and unshare can do that (2.39 reads no minus)."""
    since = int(float(Path("/proc/uptime").read_text().split()[0]))
    options = ["--time", f"--boottime=-{since}", f"--monotonic=-{int(time.monotonic())}"]
    return [] if _run(["unshare", "--fork", *options, "true"], "", check=False).returncode else options


def _hashed(password: str) -> str:
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    hashed: bytes = library.crypt(password.encode(), b"$6$" + uuid.uuid4().hex[:16].encode() + b"$")
    return hashed.decode()


def _accounts_with_home(home: Path) -> str:
    """The machine's accounts, but we live at ``home``: ssh asks there, not in the environment."""
    rows = [line.split(":") for line in Path("/etc/passwd").read_text().splitlines() if line.count(":") == 6]
    for row in rows:
        if int(row[2]) == os.geteuid():
            row[5] = str(home)
    return "".join(":".join(row) + "\n" for row in rows)


def _process(entry: Path) -> Process | None:
    try:
        status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
        argv = (entry / "cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    if status["State"].split()[0] in "ZX":
        return None
    return Process(int(entry.name), int(status["Uid"].split()[0]), tuple(argv))


def _is_sshd(process: Process) -> bool:
    """Listeners and sessions call themselves so, newer ones ``sshd-session``."""
    return Path(process.argv[0].partition(":")[0]).name.startswith("sshd")


def _entry(path: Path) -> Entry:
    mode, uid = path.lstat().st_mode, path.lstat().st_uid
    content = os.readlink(path) if stat.S_ISLNK(mode) else hashlib.sha256(_bytes(path)).hexdigest()
    return Entry(stat.filemode(mode)[0], stat.S_IMODE(mode), uid, content)


def _bytes(path: Path) -> bytes:
    """What is in a file or behind a link; nothing is in anything else."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path))
    return path.read_bytes() if stat.S_ISREG(mode) else b""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _eventually(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.002)


def _checked(argv: Sequence[str], stdin: str = "") -> str:
    return _run(argv, stdin, check=True).stdout


def _run(
    argv: Sequence[str], stdin: str, check: bool, env: Mapping[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv, input=stdin, capture_output=True, text=True, errors="surrogateescape", check=False, env=env
    )
    if check and done.returncode:
        raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stdout}{done.stderr}".rstrip())
    return done


# From here on: what the first process of each machine does.

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC = 1, 2, 4, 4096, 16384
MNT_DETACH = 2


def _main(kind: str, spec: dict[str, Any]) -> None:
    if os.readlink("/proc/self/ns/net") == spec["outside"]:
        raise SystemExit("not in a network namespace of its own")
    pid = os.readlink("/proc/self")  # as those outside count, as long as their /proc is still mounted
    # Our addresses are unique: no duplicate address detection, which would delay IPv6 by a second.
    Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0")
    {"router": _become_router, "host": _become_host, "client": _become_client}[kind](spec)
    print(pid, flush=True)
    sys.stdin.buffer.read()
    if kind != "host":
        _end_all_here()


def _become_router(spec: dict[str, Any]) -> None:
    _mount("tmpfs", SHELF, "tmpfs", data="mode=755")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")


def _become_client(spec: dict[str, Any]) -> None:
    socket.sethostname(spec["name"])
    files = SHELF / spec["files"]
    for source, target in (
        (SHELF / "hosts", "hosts"),
        (files / "passwd", "passwd"),
        (files / "resolv.conf", "resolv.conf"),
    ):
        if Path("/etc", target).exists():
            _mount(source, Path("/etc", target), flags=MS_BIND)
    _call("umount2", os.fsencode(SHELF), MNT_DETACH)


def _become_host(spec: dict[str, Any]) -> None:
    socket.sethostname(spec["name"])
    disk = SHELF / spec["name"]
    root = disk / "root"
    for name in ("upper", "work", "root", "home", "vartmp"):
        (disk / name).mkdir(exist_ok=True)
    (disk / "vartmp").chmod(0o1777)
    _mount("overlay", root, "overlay", data=f"lowerdir=/,upperdir={disk}/upper,workdir={disk}/work")
    _mount_system(root, disk, spec["boot_id"])
    for place in spec["hidden"]:
        if (hidden := root / place.lstrip("/")).is_dir():
            _mount("tmpfs", hidden, "tmpfs", data="mode=711")
    for place, source in spec["shares"].items():
        target = root / place.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        _mount(source, target, flags=MS_BIND | MS_REC)
    (root / "etc/hostname").write_text(f"{spec['name']}\n")
    os.chdir(root)
    _call("pivot_root", b".", b"mnt")
    os.chdir("/")
    _call("umount2", b"/mnt", MNT_DETACH)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps what is orphaned here


def _mount_system(root: Path, disk: Path, boot_id: str) -> None:
    _mount("proc", root / "proc", "proc")
    _mount("sysfs", root / "sys", "sysfs", MS_RDONLY)
    _mount("/dev", root / "dev", flags=MS_BIND)
    _mount("devpts", root / "dev/pts", "devpts", data="newinstance,ptmxmode=0666,mode=620,gid=5")
    for place, mode in (("dev/shm", "1777"), ("tmp", "1777"), ("run", "755")):
        _mount("tmpfs", root / place, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    _mount(disk / "home", root / "home", flags=MS_BIND)
    _mount(disk / "vartmp", root / "var/tmp", flags=MS_BIND)
    (root / "run/sshd").mkdir()
    _mount(SHELF / "hosts", root / "etc/hosts", flags=MS_BIND)
    (root / "run/boot_id").write_text(f"{boot_id}\n")
    _mount(root / "run/boot_id", root / "proc/sys/kernel/random/boot_id", flags=MS_BIND)


def _end_all_here() -> None:
    mine = os.readlink("/proc/self/ns/net")
    found = True
    while found:
        found = False
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if os.readlink(entry / "ns/net") == mine:
                        found = True
                        os.kill(int(entry.name), signal.SIGKILL)


def _mount(source: str | Path, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    _call("mount", os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())


def _call(name: str, *words: Any) -> None:
    if ctypes.CDLL(None, use_errno=True)[name](*words):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", os.fsdecode(words[1 if name == "mount" else 0]))


if __name__ == "__main__":
    _main(sys.argv[1], json.loads(sys.argv[2]))
