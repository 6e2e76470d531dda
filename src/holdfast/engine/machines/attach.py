"""Attaches a machine: checks its host key, logs in, inspects it, and writes its ``.compute`` file.

A password is used for one login, which installs a key for this target, and is not kept.
"""

from __future__ import annotations

import os
import subprocess

from holdfast import answers, target_lookup
from holdfast.amlconfig.types import DEFAULT_IMAGE
from holdfast.amlconfig.write import reached_by
from holdfast.engine.connection.channel import SEARCHING, RunnerChannel
from holdfast.engine.connection.transport import run_to_end
from holdfast.engine.machines import gpu_probe
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    HoldfastError,
    HostKeyError,
    NoPythonError,
    SilentError,
    UnreachableError,
)
from holdfast.hosts import askpass, openssh
from holdfast.model import Json, Login
from holdfast.record import Record
from holdfast.runner.decoding import readable
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.emit import Settings
    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.ports import Host
    from holdfast.store.home import Home

_ENGINES = ("docker", "podman")
_FIND_PYTHON = (
    "for p in python3 /usr/bin/python3 /usr/local/bin/python3 ~/miniconda3/bin/python3 ~/anaconda3/bin/python3 "
    "/opt/conda/bin/python3 /opt/miniconda3/bin/python3 /anaconda/bin/python3 python3.13 python3.12 python3.11 "
    "python3.10 python3.9 python3.8 python3.7 python3.6 python; do "
    'q=`command -v $p 2>/dev/null` && $q -c "import sys; sys.exit(sys.version_info < (3, 6))" 2>/dev/null '
    "&& echo && echo found $p $q && exit 0; done; echo; echo missing; exit 1"
)
_FIND_S = 30.0
_HERE_S = 30
_SURVEY_S = 20.0  # for container engines and the driver of the GPUs


class Entry(Record):
    """How we got in, and what was found there."""

    facts: Json
    clients: tuple[str, ...]
    python: str
    way: str
    gpu_test: gpu_probe.Outcome | None = None


def offered_key(login: Login) -> str:
    """The key that the machine shows, seen before anything is sent: the conversation ends where a login would begin."""
    import tempfile

    openssh.check(login)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "known_hosts")
        options = {
            **openssh.pinned(file),
            "StrictHostKeyChecking": "accept-new",
            "BatchMode": "yes",
            "PreferredAuthentications": "none",
            "ConnectTimeout": "10",
            "LogLevel": "ERROR",
            "ControlPath": "none",
            "HashKnownHosts": "no",
        }
        arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        done = run_here(["ssh", "-T", *arguments, *openssh.destination(login), "true"])
        try:
            with open(file, encoding="ascii") as source:
                _, kind, key = source.readline().split()[:3]
                return f"{kind} {key}"
        except (FileNotFoundError, ValueError):
            words_said = readable(done.stderr)
            fallback = UnreachableError("the machine sent no host key", where=login.address, answer=words_said.strip())
            raise openssh.meaning(login, words_said) or fallback from None


def is_known(login: Login, key: str) -> bool:
    """Whether the user's own known hosts have this very key for this machine."""
    output = readable(run_here(["ssh", "-G", *openssh.destination(login)]).stdout)
    config = dict(line.partition(" ")[::2] for line in output.splitlines())
    host, port = config.get("hostname", login.address), config.get("port", "22")
    name = config.get("hostkeyalias") or (host if port == "22" else f"[{host}]:{port}")
    files = f"{config.get('userknownhostsfile', '')} {config.get('globalknownhostsfile', '')}".split()
    for file in files:
        matches = readable(run_here(["ssh-keygen", "-F", name, "-f", os.path.expanduser(file)]).stdout)
        if any(key in line for line in matches.splitlines() if not line.startswith("#")):
            return True
    return False


def settle_key(login: Login, accept: str | None, pinned: str | None, agree: Callable[[str], bool]) -> str:
    """The key to pin: named on the command line, pinned earlier, known to the user, or agreed to by a person."""
    key = offered_key(login)
    shown = openssh.fingerprint(key)
    if accept is not None:
        if accept.strip() != shown:
            answer = f"expected: {accept}\noffered:  {shown}"
            raise HostKeyError("the host key is not the expected one; nothing was sent", answer=answer)
        return key
    if key == pinned:
        return key
    before = f"before: {openssh.fingerprint(pinned)}" if pinned else ""
    if is_known(login, key) or agree(f"{key.split()[0]} {shown}" + (f" ({before})" if before else "")):
        return key
    hint = f"verify the fingerprint with the machine's administrator, then: --accept-host-key {shown}"
    what = "the host key is another one than before" if pinned else "the host key is not known"
    raise HostKeyError(
        f"{what} and was not confirmed; nothing was sent", answer=f"offered: {shown}\n{before}".strip(), hint=hint
    )


def enter(
    home: Home, login: Login, compute: ComputeTarget, secret: str | None, *, own_key: bool
) -> tuple[Login, Entry]:
    """Log in with the user's keys or the password, inspect the machine, and install a key if needed or requested."""
    root = compute.root
    reach = target_lookup.host_class(compute.kind)
    host, python = _log_in(login, compute, reach, secret)
    channel = RunnerChannel(host, python, root, login.name, layout.runner_digest(home.path), SEARCHING)
    try:
        clients = tuple(answers.texts(channel.ask("register", client=home.id, label=_label()), "clients", login.name))
        facts = answers.table(channel.ask("survey", within=_SURVEY_S), "facts", login.name)
        method = "with your SSH key or agent"
        if own_key or secret is not None:
            login, method = _install_key(home, login, channel, reach, python, root, secret)
        return login, Entry(facts, clients, python, method, _test_gpu(channel, compute, facts, python))
    finally:
        channel.close()


def _log_in(login: Login, compute: ComputeTarget, reach: Callable[..., Host], secret: str | None) -> tuple[Host, str]:
    """A password that is given must be right, also where a key would do; keys are for machines that take none."""
    ask = None if secret is None else (lambda: secret)
    if secret is not None and not compute.private_key_file:
        try:
            return _entered(login, reach(login, shared=False, secret=ask, password_only=True))
        except AuthenticationError as error:
            if openssh.takes_passwords(error.answer):
                raise
    return _entered(login, reach(login, shared=secret is None, secret=ask))


def _entered(login: Login, host: Host) -> tuple[Host, str]:
    try:
        return host, find_python(host, f"{login.user}@{login.address}" if login.user else login.address or "")
    except BaseException:
        host.close()
        raise


def _test_gpu(channel: RunnerChannel, compute: ComputeTarget, facts: Json, python: str) -> gpu_probe.Outcome | None:
    """With the settings that the .compute file will have."""
    if compute.kind.in_container:
        values = _container_settings(facts)
        engine = str(values["engine"]) if "engine" in values else None
        image = compute.base_docker_image or DEFAULT_IMAGE
        compute = compute._replace(engine=engine, base_docker_image=image, nvidia_docker=bool(values["nvidiaDocker"]))
    due = compute.kind.is_available and gpu_probe.is_due(compute, facts)
    return gpu_probe.trial(channel, compute, python) if due else None


def make_key(login: Login) -> str:
    """A key pair for this target alone; the public half."""
    path = layout.key(login.folder)
    if not os.path.exists(path):
        os.makedirs(login.folder, 0o700, exist_ok=True)
        done = run_here(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"holdfast {_label()}", "-f", path])
        if done.returncode:
            raise ConfigError("the SSH key could not be created", where=path, answer=readable(done.stderr))
    with open(layout.public_key(login.folder), encoding="ascii") as source:
        return source.read().strip()


def settings(compute: ComputeTarget, entry: Entry | None) -> Settings:
    """What the .compute file says, with what was found on the machine already set."""
    values = reached_by(compute)
    python = _absolute(entry) if entry is not None else None
    if compute.kind.in_container and not compute.dockerfile:
        values["baseDockerImage"] = compute.base_docker_image or DEFAULT_IMAGE
    elif not compute.kind.in_container and python is not None:
        values["pythonLocation"] = python
    values.update(compute.kind.attach_settings or ())
    if compute.kind.in_container and entry is not None:
        values.update(_container_settings(entry.facts))
    return values


def _container_settings(facts: Json) -> dict[str, str | bool]:
    engines, gpus = facts.get("engines"), facts.get("gpus")
    rows = engines.items() if isinstance(engines, dict) else ()
    usable = [name for name, row in rows if isinstance(row, dict) and "version" in row and name in _ENGINES]
    values: dict[str, str | bool] = {"engine": usable[0]} if usable else {}
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    values["nvidiaDocker"] = isinstance(first, dict) and "error" not in first
    return values


def _absolute(entry: Entry) -> str | None:
    python = entry.facts.get("python")
    path = python.get("path") if isinstance(python, dict) else None
    return path if isinstance(path, str) and path.startswith("/") and path.isprintable() else None


def find_python(host: Host, where: str = "") -> str:
    """The path of ``python3`` where the login finds one that will do, else of the first usable one elsewhere."""
    return search_python(host, where)[1]


def search_python(host: Host, where: str = "") -> tuple[str, str]:
    """The same, with the name by which it was found."""
    ended = run_to_end(host, ("sh", "-c", _FIND_PYTHON), _FIND_S)
    lines = readable(ended.out).splitlines()
    for line in lines:
        if line.startswith("found "):
            name, _, path = line[6:].strip().partition(" ")
            return name, path
    if ended.is_late:
        what, hint = host.reached()
        raise SilentError(f"{what} within {_FIND_S:g} s", answer=ended.stderr, hint=hint)
    if "missing" in lines:
        hint = "install one there: apt-get install python3; or unpack one into your home directory there and set\n"
        hint += "pythonLocation to its path"
        what = "no Python 3.6 or newer was found on that machine"
        raise NoPythonError(what, where=where, answer=ended.stderr, hint=hint)
    output = "\n".join(filter(None, (ended.stderr, readable(ended.out).strip())))
    meant = host.meaning(output, ended.status)
    raise meant or UnreachableError("no command could be run on that machine", answer=output)


def _install_key(
    home: Home,
    login: Login,
    channel: RunnerChannel,
    reach: Callable[..., Host],
    python: str,
    root: str | None,
    secret: str | None,
) -> tuple[Login, str]:
    """Install a key and test a login with it alone; a machine that accepts no keys asks for a password each time."""
    line = make_key(login)
    channel.ask("authorize", client=home.id, line=line)
    keyed = login._replace(identity=layout.key(login.folder), asks=False)
    trial = RunnerChannel(reach(keyed), python, root, login.name, layout.runner_digest(home.path), SEARCHING)
    try:
        trial.hello()
        return keyed, "with a key created for this target"
    except HoldfastError:
        channel.ask("authorize", client=home.id, line="")
        for path in (layout.key(login.folder), layout.public_key(login.folder)):
            os.unlink(path)
    finally:
        trial.close()
    with open(layout.asks(login.folder), "w", encoding="ascii"):
        pass
    kept = secret is not None and askpass.keep(login, secret)
    method = "with a password from your keyring" if kept else "with a password, prompted for each time"
    return login._replace(asks=True), f"{method}: the machine accepts no public keys"


def _label() -> str:
    import platform

    return f"{os.environ.get('USER') or os.environ.get('USERNAME') or 'unknown'}@{platform.node()}"


def run_here(argv: list[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_HERE_S)
    except FileNotFoundError as error:
        hint = "install OpenSSH's client: apt-get install openssh-client"
        raise UnreachableError(f"{argv[0]} is not installed on this machine", answer=str(error), hint=hint) from error
    except subprocess.TimeoutExpired as error:
        stderr = readable(error.stderr or b"").strip()
        raise SilentError(f"{argv[0]} did not end within {_HERE_S} s", answer=stderr) from error
