"""Restarts the command without a password in its arguments, because process lists show arguments to all users."""

from __future__ import annotations

import os
import sys

from holdfast.runner.decoding import as_bytes, lossless

_OPTIONS = ("--password", "-w", "--private-key-passphrase")
_VARIABLE = "_HOLDFAST_SECRET_FD"  # for ourselves, from one exec to the next


def conceal(argv: list[str]) -> None:
    """Where an attach names a secret, become the same command without it; the secret waits in a pipe."""
    if "attach" not in argv[:4] or os.name != "posix":
        return
    rest, secret = _split(argv)
    if secret is None or secret == "-":
        return
    reading, writing = os.pipe()
    os.write(writing, as_bytes(secret))
    os.close(writing)
    os.set_inheritable(reading, True)
    head = sys.orig_argv[1 : len(sys.orig_argv) - len(argv)]
    os.execve(sys.executable, [sys.executable, *head, *rest], {**os.environ, _VARIABLE: str(reading)})


def concealed() -> str | None:
    """The secret that this command was started with, once."""
    fd = os.environ.pop(_VARIABLE, "")
    if not fd.isdigit():
        return None
    with open(int(fd), "rb") as source:
        return lossless(source.read())


def _split(argv: list[str]) -> tuple[list[str], str | None]:
    rest: list[str] = []
    secret = None
    tokens = iter(argv)
    for word in tokens:
        name, equals, value = word.partition("=")
        if name in _OPTIONS and equals:
            secret = value
        elif word in _OPTIONS:
            secret = next(tokens, None)
        else:
            rest.append(word)
    return rest, secret
