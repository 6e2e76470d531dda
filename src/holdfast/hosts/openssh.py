"""Command lines for the user's ``ssh``: checked names, options, quoting, and the meaning of its error messages. Pure.

Host keys are always checked, against the pinned key where there is one and else against the user's own known hosts;
no option and no file can switch that off. Agents and displays are not forwarded.
"""

from __future__ import annotations

import binascii
import hashlib

from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    HoldfastError,
    HostKeyError,
    RemoteCommandError,
    UnknownHostKeyError,
    UnreachableError,
)
from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Login

# What our pinned keys are filed under: a machine may change its address, not its key.
ALIAS = "holdfast-target"
KEEP_ALIVE_S = 3
KEEP_ALIVE_MISSES = 4
PERSIST_S = 600
OWN_STATUS = 255  # ssh itself failed, and not the remote command
# These need no quoting in sh, bash, zsh, csh, tcsh or fish ...
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+=,:@")
# ... these are themselves between double quotes in all of them, and these between single quotes.
_IN_DOUBLE = _PLAIN | frozenset(" ();'<>[]*?&|#~{}^")
_IN_SINGLE = (_IN_DOUBLE | frozenset('"$`%')) - frozenset("'")
_LONGEST = 60_000
_LONGEST_NAME = 255
# Reads the words of a command from stdin, where no shell can touch them, and becomes that command.
_UNWRAP = (
    "import os,json;r=lambda n,d=b'':d if len(d)>=n else r(n,d+os.read(0,min(n-len(d),65536)));"
    "a=[w.encode('utf-8','surrogateescape') for w in json.loads(r(int(r(8))).decode())];os.execvp(a[0],a)"
)


def complaint(what: str, word: str) -> tuple[str, str]:
    """Why this cannot be an ``address`` or ``username``, with a hint; empty texts where it can."""
    allowed = _PLAIN | set("%") if what == "username" or ":" in word else _PLAIN  # fe80::1%eth0
    if word and word[0] not in "-@" and set(word) <= allowed and "//" not in word and len(word) <= _LONGEST_NAME:
        return "", ""
    hint = "use a plain host name or address" if what == "address" else "use a plain user name"
    return f"{what} cannot be {word[:_LONGEST_NAME]!r}", hint


def check(login: Login) -> None:
    """Refuse names that could be anything but a name before a process is started with them."""
    for what, word in (("address", login.address), ("username", login.user or "x")):
        message, hint = complaint(what, word)
        if message:
            raise ConfigError(message, where=f"{login.name}.compute", hint=hint)
    if login.port is not None and not 0 < login.port < 65536:
        raise ConfigError(f"port cannot be {login.port}", where=f"{login.name}.compute", hint="22 is the usual one")


def destination(login: Login) -> list[str]:
    arguments = []
    if login.port is not None:
        arguments += ["-p", str(login.port)]
    if login.user is not None:
        arguments += ["-l", login.user]
    return [*arguments, "--", login.address]


def options(login: Login, *, shared: str, timeout: int, ask: bool = False, password_only: bool = False) -> list[str]:
    """``shared`` is the socket of the shared connection, empty for a connection of its own; ``ask`` allows prompts."""
    settings = {
        "BatchMode": "no" if ask else "yes",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "RemoteCommand": "none",
        "RequestTTY": "no",
        "ServerAliveInterval": str(KEEP_ALIVE_S),
        "ServerAliveCountMax": str(KEEP_ALIVE_MISSES),
        "ConnectTimeout": str(timeout),
        "LogLevel": "ERROR",
        "ControlMaster": "auto" if shared else "no",
        "ControlPath": shared or "none",
        "ControlPersist": str(PERSIST_S) if shared else "no",
    }
    if ask:
        settings["NumberOfPasswordPrompts"] = "1"
    if password_only:
        settings.update(PubkeyAuthentication="no", PreferredAuthentications="keyboard-interactive,password")
    if login.host_key:
        settings.update(pinned(known_hosts_file(login)))
    if login.identity:
        settings.update(IdentityFile=_escaped(login.identity), IdentitiesOnly="yes")
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def takes_passwords(refusal: str) -> bool:
    """Whether a refused login may have had a wrong password: the last line of ssh names the methods of the machine."""
    _, is_named, methods = refusal.rpartition("Permission denied (")
    return not is_named or "password" in methods or "keyboard-interactive" in methods


def pinned(file: str) -> dict[str, str]:
    """Options that make one file the only source of host keys."""
    path = _escaped(file)
    return {"UserKnownHostsFile": path, "GlobalKnownHostsFile": path, "HostKeyAlias": ALIAS, "CheckHostIP": "no"}


def known_hosts_file(login: Login) -> str:
    return layout.known_hosts(login.folder)


def known_hosts_text(login: Login) -> str:
    return f"{ALIAS} {login.host_key}\n"


def command(argv: tuple[str, ...]) -> tuple[str, bytes]:
    """One line for whatever shell is there, and what must go into its stdin first."""
    line = " ".join(_quoted(word) for word in argv)
    if all(set(word) <= _IN_DOUBLE or set(word) <= _IN_SINGLE for word in argv) and len(line) < _LONGEST:
        return line, b""
    import json

    encoded = json.dumps(argv).encode("ascii")
    wrapped = ("python3", "-c", _UNWRAP)
    return " ".join(_quoted(word) for word in wrapped), b"%08d" % len(encoded) + encoded


def fingerprint(key: str) -> str:
    """``SHA256:...`` of a public key in its ``type base64`` form, as ``ssh-keygen -l`` prints it."""
    digest = hashlib.sha256(binascii.a2b_base64(key.split()[1].encode("ascii"))).digest()
    return "SHA256:" + binascii.b2a_base64(digest, newline=False).decode("ascii").rstrip("=")


def meaning(login: Login, output: str, status: int | None = None) -> HoldfastError | None:
    """What the output and exit status of an ssh command mean; None where they do not tell.

    ssh ends with 255 for reasons of its own, and else with the exit status of the remote command.
    """
    lines = [line for line in output.replace("\r", "").splitlines() if line.strip()]
    if status in (None, OWN_STATUS):
        return _of_connection(login, output, lines, is_certain=status == OWN_STATUS)
    answer = "\n".join(lines[-5:])
    if status in (126, 127) or "ommand not found" in output:
        hint = f"holdfast computetarget test {argument(login.name)}"
        what = f"the command could not be started on the target (exit status {status})"
        return RemoteCommandError(what, where=_at(login), answer=answer, hint=hint)
    what = f"the login shell ended with exit status {status} before the runner responded"
    hint = "check for an exit in a startup file of the shell (~/.bashrc) or a nologin account"
    return RemoteCommandError(what, where=_at(login), answer=answer or "it printed nothing", hint=hint)


def _of_connection(login: Login, output: str, lines: list[str], *, is_certain: bool) -> HoldfastError | None:
    last = lines[-1] if lines else ""
    if "Host key verification failed" in output or "host key is known" in output:
        return _host_key_error(login, output)
    if "UNPROTECTED PRIVATE KEY" in output:
        answer = next(line for line in lines if "Permissions" in line or "UNPROTECTED" in line)
        hint = f"chmod 600 {argument(login.identity)}" if login.identity else "chmod 600 the key"
        what = "ssh refuses a private key that is readable by other users"
        return AuthenticationError(what, where=_at(login), answer=answer, hint=hint)
    refused = next((line for line in lines if any(part in line for part in _REFUSED)), "")
    if "Permission denied" in last or refused:
        hint = f"holdfast computetarget test {argument(login.name)} shows the attempts; attach again to install a key"
        return AuthenticationError("SSH authentication failed", where=_at(login), answer=refused or last, hint=hint)
    for part, what, hint in _COMPLAINTS:
        if part in output:
            answer = next(line for line in lines if part in line)
            return UnreachableError(what, where=_at(login), answer=answer, hint=hint.format(name=argument(login.name)))
    if not is_certain:
        return None
    what, hint = "the SSH connection ended before an answer came", _TEST.format(name=argument(login.name))
    return UnreachableError(what, where=_at(login), answer=last or "ssh ended with exit status 255", hint=hint)


_TEST = "holdfast computetarget test {name}"
_COMPLAINTS = (
    ("Could not resolve hostname", "the host name cannot be resolved", "check the address and the network"),
    ("Connection refused", "connection refused: no SSH server is running", "check that sshd runs there on this port"),
    ("timed out", "the connection timed out", "check that the machine is on and reachable; " + _TEST),
    ("No route to host", "no route to the machine", "check that the network or VPN is up; " + _TEST),
    ("Network is unreachable", "no route to the machine", "check that the network or VPN is up; " + _TEST),
    ("Connection closed by", "the machine closed the connection", _TEST),
    ("Connection reset", "the connection was reset", _TEST),
    ("kex_exchange_identification", "the machine closed the connection before identifying itself", _TEST),
)
_REFUSED = ("Too many authentication failures", "account has expired", "account is locked", "password has expired")


def _host_key_error(login: Login, output: str) -> HostKeyError:
    sent = next((line.strip().rstrip(".") for line in output.splitlines() if line.strip().startswith("SHA256:")), "")
    if login.host_key is None:
        port, user = f"-p {login.port} " if login.port else "", f"{login.user}@" if login.user else ""
        hint = f"run: ssh {port}{argument(user + login.address)} true\n"
        attach = f"holdfast attach {argument(_at(login))} --name {argument(login.name)}"
        hint += f"or attach it to show and pin the key: {attach}"
        what = "the host key of this machine is not known; nothing was sent"
        return UnknownHostKeyError(what, where=_at(login), answer=sent or output.strip().splitlines()[-1], hint=hint)
    answer = f"pinned:  {fingerprint(login.host_key)}\noffered: {sent or 'a key of another type'}"
    hint = (
        "if the machine was reinstalled, verify the new key, then: holdfast computetarget detach "
        f"{argument(login.name)}, and attach it again"
    )
    return HostKeyError(
        "the host key has changed since the machine was attached; nothing was sent",
        where=_at(login),
        answer=answer,
        hint=hint,
    )


def argument(text: str) -> str:
    """A name as one argument of a command that a message shows: it can come from a file of a project."""
    from shlex import quote

    return quote(text)


def _at(login: Login) -> str:
    user = f"{login.user}@" if login.user else ""
    port = f":{login.port}" if login.port else ""
    return f"{user}{login.address}{port}"


def _quoted(word: str) -> str:
    # zsh would look up a command for a word that begins with an equals sign
    if word and set(word) <= _PLAIN and word[0] != "=":
        return word
    return f"'{word}'" if set(word) <= _IN_SINGLE else f'"{word}"'


def _escaped(path: str) -> str:
    """A path as ssh's configuration reads it: percent signs are its own, blanks end a word."""
    path = path.replace("%", "%%")
    return f'"{path}"' if " " in path else path
