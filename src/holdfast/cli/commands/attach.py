"""``holdfast computetarget attach``, in all its generations, and ``holdfast attach USER@HOST``"""

from __future__ import annotations

import os
import sys
from shlex import quote

from holdfast import kinds, target_lookup
from holdfast import project as projects
from holdfast.amlconfig.types import ComputeTarget, split_address
from holdfast.cli.conceal import concealed
from holdfast.engine.machines import attach as engine
from holdfast.engine.machines import target_files
from holdfast.errors import AuthenticationError, UsageError
from holdfast.present.terminal import human_bytes, is_tty, show
from holdfast.runner import untrusted
from holdfast.store import trust_file
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json
    from holdfast.store.home import Home

_LOGIN = {
    "username": "--username",
    "port": "--port",
    "root": "--root",
    "key_file": "--private-key-file",
    "accept_host_key": "--accept-host-key",
}


def attach(parsed: Parsed) -> int:
    compute, folder = _understand(parsed)
    secret = concealed()
    if not compute.kind.over_ssh:
        _refuse_login(parsed, secret)
    if secret is not None:
        sys.stderr.write("WARNING: your shell has probably kept that password in its history; omit it to be prompted\n")
    elif parsed.text("password") == "-" or parsed.text("passphrase") == "-":
        secret = sys.stdin.readline().rstrip("\n")
    home = open_home()
    trust_file.begin(home)
    if not compute.kind.over_ssh:
        return _attach_service(home, compute, folder)
    before = target_files.earlier(home, folder, compute.name)
    compute = target_files.with_image(compute, before)
    login, accepted = target_lookup.login(compute, home.path), parsed.text("accept_host_key")
    compute = compute._replace(host_key=engine.settle_key(login, accepted, before.pinned, _agree))
    entry = _enter(home, compute, secret, own_key=parsed.flag("own_key"))
    _tell(compute, entry)
    _write(folder, compute, entry)
    target_files.confirm(home, folder, compute.name)
    return 0 if entry is not None else 69


def _refuse_login(parsed: Parsed, secret: str | None) -> None:
    given = [option for name, option in _LOGIN.items() if parsed.text(name)]
    given += ["--use-azureml-ssh-key"] * parsed.flag("own_key") + ["--password"] * (secret is not None)
    if given:
        what = f"{given[0]} is for machines that are reached by SSH, and {parsed.text('address')} is not"
        raise UsageError(what, hint=f"omit {', '.join(given)}")


def _attach_service(home: Home, compute: ComputeTarget, folder: str) -> int:
    """A Spark master or Connect server: there is no login, and nothing is installed."""
    from holdfast.engine.machines import spark_cluster

    spark_cluster.check(compute)
    _write(folder, compute, None)
    target_files.confirm(home, folder, compute.name)
    sys.stderr.write(f"now: holdfast submit -c {show(quote(compute.name))} SCRIPT\n")
    return 0


def _understand(parsed: Parsed) -> tuple[ComputeTarget, str]:
    word = parsed.text("kind") or ""
    attachable = kinds.attachable()
    short = bool(word) and word not in attachable
    if short and parsed.text("address"):
        raise UsageError(f"{word!r} is not a type of target", hint=f"types: {', '.join(attachable)}")
    kind = parsed.text("type") or ("cluster" if parsed.flag("cluster") else kinds.DEFAULT_ATTACHED)
    kind = (kinds.DEFAULT_MACHINE if not parsed.text("type") else kind) if short else word or kind
    if kind not in attachable:
        raise UsageError(f"{kind!r} is not a type of target", hint=f"types: {', '.join(attachable)}")
    user, _, address = word.rpartition("@") if short else ("", "", parsed.text("address") or "")
    if not address:
        raise UsageError("no machine given", hint="--address HOST, or: holdfast attach USER@HOST")
    port = None if parsed.text("port") is None else untrusted.whole_number(parsed.text("port") or "") or 0
    if port is not None and not 0 < port < 65536:
        raise UsageError(f"--port {parsed.text('port')}: not a valid port", hint="22 is the usual one")
    name = parsed.text("name") or (_first_label(address) if short else None)
    if not name or name != os.path.basename(name) or name.startswith((".", "-")) or not name.isprintable():
        raise UsageError(f"{name!r} is not a valid target name", hint="--name NAME")
    if name == "local":
        raise UsageError("the name local is reserved for this machine", hint="use another --name")
    host, port_number = split_address(address, port)
    compute = ComputeTarget(
        name=name,
        type=kind,
        address=host,
        username=parsed.text("username") or user or None,
        port=port_number,
        private_key_file=parsed.text("key_file"),
        root=parsed.text("root"),
    )
    project = projects.find(parsed.text("project") or os.getcwd())
    in_project, for_user = target_lookup.folders(project.root, open_home().path)
    return compute, for_user if short or parsed.flag("user") else in_project


def _first_label(address: str) -> str:
    host, _ = split_address(address, None)
    return host if host.replace(".", "").isdigit() or ":" in host else host.split(".")[0]


def _enter(home: Home, compute: ComputeTarget, secret: str | None, *, own_key: bool) -> engine.Entry | None:
    login = target_lookup.login(compute, home.path)
    try:
        _, entry = engine.enter(home, login, compute, secret, own_key=own_key)
        return entry
    except AuthenticationError:
        if secret is not None:
            raise
        password = _ask_password(compute)
        if password is not None:
            _, entry = engine.enter(home, login, compute, password, own_key=True)
            return entry
        if not own_key:
            raise
    line = engine.make_key(login)
    sys.stdout.write(f"{line}\n")
    where = show(f"{compute.username or 'you'}@{login.address}")
    test = f"holdfast computetarget test {show(quote(compute.name))}"
    sys.stderr.write(f"add the line above to ~/.ssh/authorized_keys of {where}, then: {test}\n")
    return None


def _ask_password(compute: ComputeTarget) -> str | None:
    """Read at the terminal or from a pipe; None where there is neither."""
    if is_tty(sys.stdin) and is_tty(sys.stderr):
        from getpass import getpass

        account = show(f"{compute.username or ''}@{target_lookup.endpoint(compute)[0]}")
        return getpass(f"public key authentication failed; {account}'s password: ")
    import stat

    try:
        piped = stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return None
    return (sys.stdin.readline().rstrip("\n") or None) if piped else None


def _agree(shown: str) -> bool:
    if not (is_tty(sys.stdin) and is_tty(sys.stderr)):
        return False
    sys.stderr.write(f"The host key of the machine is:  {show(shown)}\nIs this correct? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(compute: ComputeTarget, entry: engine.Entry | None) -> None:
    from holdfast.hosts.openssh import fingerprint

    lines = [("key", f"{fingerprint(compute.host_key)}, pinned" if compute.host_key else "")]
    if entry is not None:
        lines += [("login", entry.way), *found_lines(entry.facts), *_gpu_lines(entry)]
        lines.append(("clients", clients_text(len(entry.clients) - 1)))
    for name, text in lines:
        sys.stderr.write(f"  {name:<9} {show(text)}\n")


def clients_text(others: int) -> str:
    if not others:
        return "no other client uses the store there"
    return f"{others} other client{'s use' if others > 1 else ' uses'} the store there"


def _gpu_lines(entry: engine.Entry) -> list[tuple[str, str]]:
    test = entry.gpu_test
    if test is None:
        return []
    summary = f"FAILED: {test.found}" if test.state == "failed" else test.found
    fixes = test.fix.splitlines()
    return [
        ("gpu test", summary),
        *(("", f"{'try: ' if number == 0 else ''}{fix}") for number, fix in enumerate(fixes)),
    ]


def found_lines(facts: Json) -> list[tuple[str, str]]:
    """The findings on a machine, as text."""
    python, disk = facts.get("python"), facts.get("disk")
    lines = [
        ("system", f"{facts.get('system')}, {facts.get('cpus')} CPUs, {human_bytes(_number(facts.get('memory')))}")
    ]
    if isinstance(python, dict):
        lines.append(("python", f"{python.get('version')} at {python.get('path')}"))
    if isinstance(disk, dict):
        lines.append(("disk", f"{human_bytes(_number(disk.get('free')))} free"))
    engines, gpus = facts.get("engines"), facts.get("gpus")
    named = (
        [
            f"{name} {details.get('version') or details.get('error')}"
            for name, details in engines.items()
            if isinstance(details, dict)
        ]
        if isinstance(engines, dict)
        else []
    )
    lines.append(("engines", ", ".join(named) or "no docker, no podman"))
    if isinstance(gpus, list):
        labels = [
            str(gpu.get("error") or f"{gpu.get('name')} ({gpu.get('memory')})") for gpu in gpus if isinstance(gpu, dict)
        ]
        lines.append(("gpus", ", ".join(labels) or "none"))
    for key, word in (("locks", "locks"), ("ends_at_logout", "logout")):
        if facts.get(key):
            lines.append((word, f"WARNING: {facts[key]}"))
    return lines


def _write(folder: str, compute: ComputeTarget, entry: engine.Entry | None) -> None:
    for line in target_files.write(folder, compute, entry):
        sys.stderr.write(f"{show(line)}\n")
    if entry is not None and compute.kind.is_available and not compute.kind.in_container:
        sys.stderr.write(f"now: holdfast submit -c {show(quote(compute.name))} SCRIPT\n")


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
