"""Passes a typed password or passphrase to ``ssh``, through SSH_ASKPASS.

It is in no argument, environment variable or file: ssh starts a small program that asks this process over a socket in a
folder that only this user can enter, and the kernel reports the user of the caller.
"""

from __future__ import annotations

import os
import shlex
import socket
import struct
import sys
import threading

from holdfast.errors import ConfigError
from holdfast.runner.decoding import as_bytes, readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.model import Login

SERVICE = "holdfast"
_PROGRAM = """#!/bin/sh
exec {python} -I -S -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode("utf-8", "surrogateescape")[:2000] + b"\\n")
answer = b""
while True:
    block = s.recv(4096)
    if not block:
        break
    answer += block
if not answer:
    sys.exit(1)
sys.stdout.buffer.write(answer + b"\\n")' {place} "$1"
"""


class Answer:
    """``with Answer(folder, secret) as env:`` is the environment for an ssh that may ask.

    ``secret`` is called when ssh asks, at most ``times`` times: an open shared connection needs none.
    """

    def __init__(self, folder: str, secret: Callable[[], str], times: int = 1) -> None:
        self._folder = folder
        self._secret = secret
        self._left = times
        self._socket = _unix_socket()
        self.prompts: list[str] = []

    def __enter__(self) -> Mapping[str, str]:
        import tempfile
        from shutil import rmtree
        from weakref import finalize

        os.makedirs(self._folder, 0o700, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="ask-", suffix=".tmp", dir=_short(self._folder))
        self._remove = finalize(self, rmtree, folder, ignore_errors=True)  # at the latest when this process ends
        path, program = os.path.join(folder, "socket"), os.path.join(folder, "ask")
        self._socket.bind(path)
        self._socket.listen(4)
        fd = os.open(program, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with open(fd, "w", encoding="utf-8") as target:
            target.write(_PROGRAM.format(python=shlex.quote(sys.executable), place=shlex.quote(path)))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        # Before 8.4 ssh uses SSH_ASKPASS only if DISPLAY is set.
        asks = {"SSH_ASKPASS": program, "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": os.environ.get("DISPLAY", ":")}
        return {**os.environ, **asks}

    def __exit__(self, *_: object) -> None:
        self._left = 0
        self._socket.close()
        self._remove()

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._socket.accept()
            except OSError:
                return
            with asking:
                try:
                    self._reply(asking)
                except OSError:
                    continue

    def _reply(self, asking: socket.socket) -> None:
        if not _is_us(asking):
            return
        with asking.makefile("rb") as source:
            prompt = readable(source.readline(4000)).strip()
        self.prompts.append(prompt)
        wanted = any(word in prompt.lower() for word in ("password", "passphrase", "passcode"))
        if self._left > 0 and wanted:
            self._left -= 1
            asking.sendall(as_bytes(self._secret()))


def _unix_socket() -> socket.socket:
    if sys.platform == "win32":
        raise ConfigError("passwords cannot be passed to ssh on Windows", hint="use a key, or an agent")
    return socket.socket(socket.AF_UNIX)


def ask_person(login: Login) -> str:
    """From the keyring of the system where there is one and it knows, else from the terminal."""
    user = login.user or ""
    ring = _keyring()
    password = ring.get_password(SERVICE, f"{user}@{login.host_key or login.address}") if ring is not None else None
    if password is not None:
        return str(password)
    from getpass import getpass

    return getpass(f"{user}@{login.address}'s password: ")


def keep(login: Login, secret: str) -> bool:
    """Give it to the system's keyring; False where there is none. It is never put into a file of ours."""
    ring = _keyring()
    if ring is None:
        return False
    ring.set_password(SERVICE, f"{login.user or ''}@{login.host_key or login.address}", secret)
    return True


def _keyring() -> Any:
    """The system's keyring by the library of that name, which people who want it install beside us."""
    try:
        keyring: Any = __import__("keyring")
    except ImportError:
        return None
    return keyring if getattr(keyring.get_keyring(), "priority", 0) >= 1 else None


def _is_us(asking: socket.socket) -> bool:
    if sys.platform != "linux":
        return True  # the folder is accessible to this user only
    raw = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", raw)[1] == os.getuid())


def _short(folder: str) -> str:
    """A socket's name may not be long: where our own folder is too deep, a temporary one."""
    from tempfile import gettempdir

    return folder if len(os.fsencode(folder)) < 70 else min(gettempdir(), "/tmp", key=len)
