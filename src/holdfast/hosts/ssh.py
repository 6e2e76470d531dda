"""A machine over SSH, through the user's OpenSSH client with its configuration, agent and jump hosts.

All commands share one connection per machine; where that is not possible each command makes its own. The socket is in a
folder that only this user can enter.
"""

from __future__ import annotations

import hashlib
import os
import sys

from holdfast.errors import ConfigError, UnreachableError
from holdfast.hosts import openssh
from holdfast.hosts.local import spawn
from holdfast.runner import wire
from holdfast.runner.decoding import as_bytes
from holdfast.runner.store import layout
from holdfast.runner.store.files import UNSYNCED, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.errors import HoldfastError
    from holdfast.hosts.askpass import Answer
    from holdfast.model import Login
    from holdfast.ports import Stream

_SEVER_S = 5
_LONGEST_SOCKET = 104 - 18  # of a unix socket's name, less the ending that ssh adds while it makes one


class SshHost:
    """``secret`` is the answer when ssh asks for one; without it ssh runs with BatchMode.

    ``password_only``: no key is tried, so that a login proves the password.
    """

    def __init__(
        self,
        login: Login,
        *,
        shared: bool = True,
        secret: Callable[[], str] | None = None,
        password_only: bool = False,
    ) -> None:
        openssh.check(login)
        self._login = login
        self._shared = shared
        self._password_only = password_only
        self._secret = secret or ((lambda: _ask_person(login)) if login.asks else None)
        self._answer: Answer | None = None
        self._env: Mapping[str, str] | None = None

    def run(self, argv: tuple[str, ...]) -> Stream:
        line, first = openssh.command(argv)
        stream = self._spawn((*self.words(), *openssh.destination(self._login), line))
        if first:
            try:
                wire.write_all(stream.stdin, first)
            except wire.Closed:
                pass  # the reader of the answer reports that there is none
        return stream

    def close(self) -> None:
        """The shared connection stays for the next command and ends when idle."""
        if self._answer is not None:
            self._answer.__exit__()
            self._answer = None

    def meaning(self, complaint: str, status: int | None = None) -> HoldfastError | None:
        return openssh.meaning(self._login, complaint, status)

    def reached(self) -> tuple[str, str]:
        test = f"holdfast computetarget test {openssh.argument(self._login.name)} shows which step fails"
        socket = control_socket(self._login) if self._shared else ""
        if not socket:
            hint = "connections are not shared, so it is unknown whether the SSH login succeeded"
            return "the target sent no answer", f"{hint}\n{test}"
        if _is_listening(socket):
            hint = (
                "check the startup files of the shell (~/.bashrc) and for a hung file system under the home directory"
            )
            return "SSH login succeeded, but the login shell did not start the runner", f"{hint}\n{test}"
        return "the target did not answer, and no SSH login was completed", test

    @property
    def asks_person(self) -> bool:
        return self._login.asks and self._secret is not None

    def at_terminal(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        line, first = openssh.command(argv)
        if first:
            what = "a name with these characters cannot be passed to a remote shell"
            raise ConfigError(what, where=f"{self._login.name}.compute", answer=repr(argv[0]))
        return (*self.words(), "-t", *openssh.destination(self._login), line)

    def reach_port(self, port: int) -> Stream | None:
        return self._spawn((*self.words(), "-W", f"127.0.0.1:{port}", *openssh.destination(self._login)))

    def sever(self) -> None:
        if not self._shared or not control_socket(self._login):
            return
        import subprocess

        argv = (*self.words(), "-O", "exit", *openssh.destination(self._login))
        nothing = subprocess.DEVNULL
        try:
            subprocess.run(argv, stdin=nothing, stdout=nothing, stderr=nothing, check=False, timeout=_SEVER_S)
        except subprocess.TimeoutExpired:
            return  # it ends when it has been idle for long

    def words(self) -> tuple[str, ...]:
        """``ssh`` with all its options; a destination and a command may follow."""
        write_pin(self._login)
        shared = control_socket(self._login) if self._shared else ""
        arguments = openssh.options(
            self._login,
            shared=shared,
            timeout=self._login.patience,
            ask=self._secret is not None,
            password_only=self._password_only,
        )
        return ("ssh", "-T", *arguments)

    def _spawn(self, argv: tuple[str, ...]) -> Stream:
        if self._secret is not None and self._answer is None:
            from holdfast.hosts.askpass import Answer

            self._answer = Answer(os.path.dirname(self._login.folder), self._secret, times=4)
            self._env = self._answer.__enter__()
        try:
            return spawn(argv, self._env)
        except FileNotFoundError as error:
            hint = "install OpenSSH's client: apt-get install openssh-client"
            raise UnreachableError("ssh is not installed on this machine", answer=str(error), hint=hint) from error


def _ask_person(login: Login) -> str:
    from holdfast.hosts.askpass import ask_person

    return ask_person(login)


def write_pin(login: Login) -> None:
    """Write the pinned key where ssh reads it. This copy is rewritten if the .compute file differs."""
    if not login.host_key:
        return
    path, text = openssh.known_hosts_file(login), openssh.known_hosts_text(login)
    try:
        with open(path, encoding="ascii") as source:
            if source.read() == text:
                return
    except (FileNotFoundError, ValueError):
        pass
    os.makedirs(login.folder, 0o700, exist_ok=True)
    write_whole(path, text.encode("ascii"), sync=UNSYNCED)


def control_socket(login: Login) -> str:
    """The path of the shared connection's socket; empty where there can be none."""
    if sys.platform == "win32" or os.environ.get("HOLDFAST_SSH_SHARED") == "no":
        return ""
    fields = (value for name, value in login._asdict().items() if name != "patience")
    who = "\0".join(map(str, (*fields, os.environ.get("SSH_AUTH_SOCK"))))
    name = hashlib.sha256(as_bytes(who)).hexdigest()[:16]
    for folder in _private_folders(login):
        path = os.path.join(folder, name)
        if len(os.fsencode(path)) <= _LONGEST_SOCKET and "%" not in path and " " not in path and _is_private(folder):
            return path
    return ""


def _is_listening(path: str) -> bool:
    """Whether a shared connection is there: ssh makes its socket once the login has succeeded."""
    if sys.platform == "win32" or not path:
        return False
    import socket

    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _private_folders(login: Login) -> list[str]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = [os.path.join(runtime, "holdfast")] if runtime and os.path.isdir(runtime) else []
    if sys.platform != "win32":
        folders += [layout.ssh_sockets(os.path.dirname(login.folder)), f"/tmp/holdfast-{os.getuid()}"]
    return folders


def _is_private(folder: str) -> bool:
    """Owned by this user with mode 0700; a folder of another user is not used."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    status = os.lstat(folder)
    return (status.st_mode & 0o170777) == 0o040700 and (sys.platform == "win32" or status.st_uid == os.getuid())
