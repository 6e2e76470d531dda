"""Checks a machine the way a run uses it, step by step, each with a hint for the case that it fails."""

from __future__ import annotations

import errno
import os
import socket
import time

from holdfast import answers, target_lookup
from holdfast.engine.connection.channel import ASKING, connect
from holdfast.engine.connection.transport import run_to_end
from holdfast.engine.machines import gpu_probe
from holdfast.engine.machines.attach import find_python, run_here
from holdfast.engine.submit.preflight import FAILED, OK, SKEW_S, SKIPPED, WARNING, Tick
from holdfast.errors import AuthenticationError, ConfigError, HoldfastError, HostKeyError, UnreachableError
from holdfast.hosts import openssh
from holdfast.hosts.ssh import SshHost
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import readable
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.model import Json, Login
    from holdfast.ports import Host
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target

LITTLE_BYTES = 1_000_000_000
LITTLE_INODES = 10_000
ANSWER_S = 9.0
_SURVEY_S = 6.0  # for the slowest part of a survey; the hello and the other parts take the rest of a question's time
# For any Python that there is, and without a character that a shell would touch.
_ASK_PYTHON = (
    "import sys,time;sys.stdout.write(' '.join(['{}',str(time.time()),sys.version.split()[0],sys.executable]))"
)
_DEAF = {
    errno.ECONNREFUSED: (
        "connection refused on port {port}",
        "start sshd there, or use its port: {again}",
    ),
    errno.EHOSTUNREACH: ("no route to host", "check that the machine is on and the network or VPN is up"),
    errno.ENETUNREACH: ("no route to host", "check that the network or VPN is up"),
}


def machine(compute: ComputeTarget, home: str) -> Target:
    """The target as a plain machine, whatever will run on it: containers and Spark are reached the same way."""
    return target_lookup.resolve(target_lookup.as_machine(compute), home)


def examine(home: Home, compute: ComputeTarget) -> Iterator[Tick]:
    """Ticks as they are found out. After a failed one nothing further can be known, and nothing comes."""
    examination = _Examination(home, compute)
    for name, look in examination.steps():
        try:
            for tick in look():
                yield tick
                if tick.state == FAILED:
                    return
        except HoldfastError as error:
            message = f"{error.what}: {' '.join(error.answer.split())}" if error.answer else error.what
            code = error.exit_code if isinstance(error, (UnreachableError, HostKeyError)) else ConfigError.exit_code
            yield Tick(name, FAILED, message, error.hint, code)
            return


class _Said(Record):
    """What a command there answered; ``words`` follow the mark, ``noise`` is what came before it."""

    words: list[str]
    noise: int
    complaint: str
    status: int | None
    was_late: bool


class _Examination:
    def __init__(self, home: Home, compute: ComputeTarget) -> None:
        self._home = home
        self._compute = compute
        self._login = target_lookup.login(compute, home.path)
        self._target = machine(compute, home.path)
        self._addresses: list[tuple[int, str]] = []
        self._port = 22
        self._jump = ""
        self._skew = 0.0

    def steps(self) -> list[tuple[str, Callable[[], Iterator[Tick]]]]:
        ssh_steps = [("dns", self._name), ("tcp", self._port_answers), ("host key", self._key), ("login", self._enter)]
        return [*(ssh_steps if self._compute.kind.over_ssh else []), ("python", self._python), ("disk", self._store)]

    def _name(self) -> Iterator[Tick]:
        config = _effective(self._login)
        jump = next((config[key] for key in ("proxyjump", "proxycommand") if config.get(key, "none") != "none"), "")
        if jump:
            self._jump = jump
            yield Tick("dns", SKIPPED, f"through {jump}")
            return
        host, self._port = config.get("hostname", self._login.address), int(config.get("port", "22"))
        try:
            addresses = socket.getaddrinfo(host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            fix = f"check the address and the network. Another address: {self._again()}"
            yield Tick("dns", FAILED, f"{host} cannot be resolved: {error.strerror}", fix, UnreachableError.exit_code)
            return
        self._addresses = list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in addresses))
        yield Tick("dns", OK, f"{host} is {' and '.join(address for _, address in self._addresses)}")

    def _port_answers(self) -> Iterator[Tick]:
        if self._jump:
            yield Tick("tcp", SKIPPED, f"through {self._jump}")
            return
        problem: OSError | None = None
        for family, address in self._addresses:
            began = time.monotonic()
            try:
                with socket.socket(family, socket.SOCK_STREAM) as knock:
                    knock.settimeout(self._login.patience)
                    knock.connect((address, self._port))
            except OSError as error:
                problem = error
                continue
            yield Tick("tcp", OK, f"{address} port {self._port} responds in {(time.monotonic() - began) * 1e3:.0f} ms")
            return
        silence = f"no response on port {{port}} within {self._login.patience} s"
        mute = (silence, "check that the machine is on and no firewall or VPN blocks it. Another address: {again}")
        what, fix = _DEAF.get(problem.errno if problem and problem.errno else 0, mute)
        fix = fix.format(again=self._again())
        yield Tick("tcp", FAILED, what.format(port=self._port), fix, UnreachableError.exit_code)

    def _key(self) -> Iterator[Tick]:
        """As far as a login would begin, and no further."""
        command = SshHost(self._login, shared=False).words()
        argv = [
            command[0],
            "-o",
            "PreferredAuthentications=none",
            *command[1:],
            *openssh.destination(self._login),
            "true",
        ]
        done = run_here(argv)
        message = readable(done.stderr)
        meant = openssh.meaning(self._login, message, done.returncode) if done.returncode else None
        if meant is not None and not isinstance(meant, AuthenticationError):
            raise meant
        if self._login.host_key:
            yield Tick("host key", OK, f"{openssh.fingerprint(self._login.host_key)}, as pinned")
        else:
            yield Tick("host key", WARNING, "in your known_hosts, but not pinned", f"pin it: {self._again()}")

    def _enter(self) -> Iterator[Tick]:
        mark = os.urandom(8).hex()
        anew = SshHost(self._login, shared=False)  # an open connection would hide that new logins are refused
        answer = _ask(anew, ("sh", "-c", f"echo {mark} $SHELL"), mark)
        anew.close()
        if answer.status == openssh.OWN_STATUS and not answer.words:
            meant = self._target.host.meaning(answer.complaint, answer.status)
            error = meant or UnreachableError("SSH login failed", answer=_last_line(answer.complaint))
            fix = self._let_in() if isinstance(error, AuthenticationError) else error.hint
            yield Tick("login", FAILED, f"{error.what}: {error.answer}", fix, error.exit_code)
            return
        yield Tick("login", OK, self._way_in())
        if answer.was_late:
            fix = "check the shell's startup files: ssh -v"
            yield Tick("shell", FAILED, f"no command ended within {ANSWER_S:.0f} s", fix, UnreachableError.exit_code)
        elif not answer.words:
            fix = f"set a shell that runs commands: chsh -s /bin/sh {self._login.user or ''}".rstrip()
            shown = f"exit status {answer.status}: {_last_line(answer.complaint)}"
            message = f"the login shell does not run commands: {shown}"
            yield Tick("shell", FAILED, message, fix, ConfigError.exit_code)
        else:
            noise = f"; its startup files print {answer.noise} bytes, which is harmless" if answer.noise else ""
            yield Tick("shell", OK, f"{' '.join(answer.words)}{noise}")

    def _python(self) -> Iterator[Tick]:
        mark = os.urandom(8).hex()
        before = time.time()
        answer = _ask(self._target.host, (self._target.runner_python, "-c", _ASK_PYTHON.format(mark)), mark)
        after = time.time()
        there = _seconds(answer.words)
        if there is None:
            if answer.status == openssh.OWN_STATUS and self._compute.kind.over_ssh:
                meant = self._target.host.meaning(answer.complaint, answer.status)
                raise meant or UnreachableError("the SSH connection ended", answer=_last_line(answer.complaint))
            message = f"{self._target.runner_python} does not run: {_last_line(answer.complaint)}"
            if answer.was_late:
                message = f"{self._target.runner_python} did not respond within {ANSWER_S:.0f} s"
            yield Tick("python", FAILED, message, self._other_python(), ConfigError.exit_code)
            return
        version, path = answer.words[1], " ".join(answer.words[2:])
        if [untrusted.whole_number(digits) or 0 for digits in version.split(".")[:2]] < [3, 6]:
            message = f"{path} is {version}, but 3.6 or newer is required"
            yield Tick("python", FAILED, message, self._other_python(), ConfigError.exit_code)
            return
        self._skew = there - after if there > after else min(0.0, there - before)
        yield Tick("python", OK, f"{version} at {path}")

    def _store(self) -> Iterator[Tick]:
        channel = connect(self._home, self._target, ASKING)
        try:
            folder = str(channel.hello()["home"])
            facts = answers.table(channel.ask("survey", within=_SURVEY_S), "facts")
            yield _disk(facts, folder)
            yield _clock(self._skew)
            yield _locks(facts, folder)
            yield _logout(facts)
            yield _gpus(facts)
            yield _engines(facts, self._compute)
            if gpu_probe.is_due(self._compute, facts):
                yield _gpu_test(gpu_probe.trial(channel, self._compute))
        finally:
            channel.close()

    def _way_in(self) -> str:
        login = self._login
        if login.asks:
            return "with a password: the machine accepts no public keys"
        if login.identity == layout.key(login.folder):
            return "with a key created for this target"
        return f"by {login.identity}" if login.identity else "with your SSH key or agent"

    def _let_in(self) -> str:
        login = self._login
        if login.identity and not os.path.exists(login.identity):
            return f"{login.identity} does not exist; set another privateKeyFile in {login.name}.compute"
        try:
            with open(layout.public_key(login.folder), encoding="ascii") as source:
                return f"add this line to ~/.ssh/authorized_keys there: {source.read().strip()}"
        except (OSError, ValueError):
            return f"{self._again()}   (prompts for the password once and installs a key)"

    def _again(self) -> str:
        login = self._login
        command = [
            "holdfast computetarget attach",
            self._compute.kind.name,
            "--name",
            login.name,
            "--address",
            login.address,
        ]
        command += ["--port", str(login.port)] if login.port else []
        command += ["--username", login.user] if login.user else []
        return " ".join(command)

    def _other_python(self) -> str:
        try:
            path = find_python(self._target.host)
        except HoldfastError as error:
            return error.hint
        return f"pythonLocation: {path} in {self._compute.name}.compute"


def _disk(facts: Json, folder: str) -> Tick:
    room = facts.get("disk")
    free, inodes = (_number(room.get(key)) for key in ("free", "inodes")) if isinstance(room, dict) else (0, 0)
    message = f"{free / 1e9:.1f} GB and {inodes} files free in {folder}"
    if free < LITTLE_BYTES or 0 < inodes < LITTLE_INODES:
        return Tick("disk", WARNING, message, "free disk space there, or set another root: in the .compute file")
    return Tick("disk", OK, message)


def _clock(skew: float) -> Tick:
    if abs(skew) <= SKEW_S:
        return Tick("clock", OK, "as here")
    message = f"{abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
    return Tick("clock", WARNING, message, "set one of the two: sudo timedatectl set-ntp true")


def _locks(facts: Json, folder: str) -> Tick:
    if not facts.get("locks"):
        return Tick("locks", OK, "locking and appending work")
    fix = "set a folder on a local disk as root: in the .compute file"
    return Tick("locks", FAILED, f"{folder}: {facts['locks']}", fix, ConfigError.exit_code)


def _logout(facts: Json) -> Tick:
    if not facts.get("ends_at_logout"):
        return Tick("logout", OK, "runs continue after logout")
    fix = f"loginctl enable-linger {facts.get('user')}"
    return Tick("logout", WARNING, f"runs end at logout: {facts['ends_at_logout']}", fix)


def _engines(facts: Json, compute: ComputeTarget) -> Tick:
    """Fatal only for a target that runs in containers."""
    engines = facts.get("engines")
    rows = (
        {str(name): row for name, row in engines.items() if isinstance(row, dict)} if isinstance(engines, dict) else {}
    )
    usable = [name for name, row in rows.items() if row.get("version")]
    # Why one does not work matters where no other does.
    shown = {name: row.get("version") or ("(not usable)" if usable else row.get("error")) for name, row in rows.items()}
    message = ", ".join(f"{name} {what}" for name, what in shown.items()) or "no docker, no podman"
    wanted = compute.kind.in_container
    if (compute.engine in usable if wanted and compute.engine else usable) or not (wanted or rows):
        return Tick("engines", OK, message)
    state, code = (FAILED, ConfigError.exit_code) if wanted else (WARNING, 0)
    if not rows:
        return Tick("engines", state, message, "install one there: sudo apt-get install podman uidmap", code)
    fix = f"check that its service runs and that you may use it: sudo usermod -aG docker {facts.get('user')}"
    if usable:
        fix = f"use the other one: engine: {usable[0]} in {compute.name}.compute"
    return Tick("engines", state, message, fix, code)


def _gpus(facts: Json) -> Tick:
    gpus = facts.get("gpus")
    rows = [row for row in gpus if isinstance(row, dict)] if isinstance(gpus, list) else []
    troubles = [str(row["error"]) for row in rows if row.get("error")]
    if troubles:
        return Tick("gpus", WARNING, troubles[0], "run nvidia-smi there; reboot after a driver update")
    if not rows:
        return Tick("gpus", OK, "none")
    known = [f"{name} {rows[0][key]}" for key, name in (("driver", "driver"), ("cuda", "CUDA")) if rows[0].get(key)]
    named = [f"{row.get('name')} ({row.get('memory')})" for row in rows]
    return Tick("gpus", OK, "; ".join([", ".join(named), *([", ".join(known)] if known else [])]))


def _gpu_test(outcome: gpu_probe.Outcome) -> Tick:
    states = {gpu_probe.REACHED: OK, gpu_probe.UNSUITED: WARNING, gpu_probe.SKIPPED: SKIPPED}
    state = states.get(outcome.state, FAILED)
    return Tick(gpu_probe.NAME, state, outcome.found, outcome.fix, ConfigError.exit_code if state == FAILED else 0)


def _effective(login: Login) -> dict[str, str]:
    """What the user's ssh makes of this target, with all its configuration."""
    done = run_here(["ssh", "-G", *openssh.destination(login)])
    if done.returncode:
        answer = readable(done.stderr).strip()
        raise ConfigError(
            "ssh cannot parse its configuration", answer=answer, hint=f"ssh -G {openssh.argument(login.address)}"
        )
    return dict(line.partition(" ")[::2] for line in readable(done.stdout).splitlines())


def _ask(host: Host, argv: tuple[str, ...], mark: str) -> _Said:
    """One command, given so much time; whatever shells print before its answer is only counted."""
    ended = run_to_end(host, argv, ANSWER_S)
    noise, separator, text = readable(ended.out).partition(mark)
    complaint = ended.stderr or noise  # some shells tell why they end on stdout
    return _Said(text.split() if separator else [], len(noise), complaint, ended.status, ended.is_late)


def _seconds(fields: list[str]) -> float | None:
    try:
        return float(fields[0]) if len(fields) >= 3 else None
    except ValueError:
        return None


def _last_line(text: str) -> str:
    lines = [line for line in text.replace("\r", "").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
