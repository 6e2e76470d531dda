"""This machine as a host."""

from __future__ import annotations

import os
import sys

from holdfast.errors import ConfigError
from holdfast.ports import PlainHost, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.model import Login


# Set for the script of a run. A runner that such a script starts belongs to another run and must not bear its marks.
_OF_A_RUN = {
    *("HOLDFAST_RUN_ID", "HOLDFAST_RUN_UID", "HOLDFAST_METRICS_DIR", "HOLDFAST_OUTPUTS", "HOLDFAST_CHECKPOINTS"),
    "AZUREML_RUN_ID",
}


class LocalHost(PlainHost):
    def __init__(self, login: Login | None = None) -> None:
        """``login`` is not used: this machine needs none."""

    def run(self, argv: tuple[str, ...]) -> Stream:
        if os.name == "nt":
            raise ConfigError("Windows itself cannot be a target", hint="use WSL, or a remote target")
        return spawn(argv, {name: value for name, value in os.environ.items() if name not in _OF_A_RUN})

    def at_terminal(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return argv

    def reached(self) -> tuple[str, str]:
        return "the runner on this machine did not start", "check for a hung disk or network file system"


def spawn(argv: tuple[str, ...], env: Mapping[str, str] | None = None) -> Stream:
    """A child in a process group of its own, so that Ctrl-C reaches the client alone."""
    if sys.platform == "win32":
        return _popen(argv, env)
    child_in, stdin = os.pipe()
    stdout, child_out = os.pipe()
    stderr, child_err = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, child_in, 0),
        (os.POSIX_SPAWN_DUP2, child_out, 1),
        (os.POSIX_SPAWN_DUP2, child_err, 2),
    ]
    try:
        pid = os.posix_spawnp(argv[0], argv, env or os.environ, file_actions=actions, setpgroup=0)
    except OSError:
        for fd in (stdin, stdout, stderr):
            os.close(fd)
        raise
    finally:
        for fd in (child_in, child_out, child_err):
            os.close(fd)
    return Stream(pid, stdin, stdout, stderr)


def _popen(argv: tuple[str, ...], env: Mapping[str, str] | None) -> Stream:
    import subprocess

    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    pipe = subprocess.PIPE
    child = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, creationflags=flags)
    stdin, stdout, stderr = (os.dup(stream.fileno()) for stream in (child.stdin, child.stdout, child.stderr) if stream)
    return Stream(child.pid, stdin, stdout, stderr)
