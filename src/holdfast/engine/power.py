"""Switching machines on and off by commands of the user's own, so that a box is paid for only while it is used.

The commands come from a project's file and run on this machine: they are run only after the user has trusted them,
and what was trusted is remembered outside the project, by its hash. A changed command is a command nobody trusts.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time

from holdfast import targets
from holdfast.engine.channel import LOOKING, connect
from holdfast.errors import ConfigError, HoldfastError, UnreachableError
from holdfast.store.home import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.store.home import Home

BOOT_LIMIT_S = 900.0
_ASK_EVERY_S = 2.0


def trust(home: Home, compute: ComputeTarget) -> list[str]:
    """From now on the target's commands may run on this machine, as they are now. Returns them."""
    commands = [command for command in (compute.start_command, compute.stop_command) if command]
    if not commands:
        hint = "startCommand: and stopCommand: in the .compute file"
        raise ConfigError(f"{compute.name} has no commands to trust", where=f"{compute.name}.compute", hint=hint)
    known = {**_trusted(home), **{_digest(command): compute.name for command in commands}}
    write_whole(_file(home), json.dumps(known, indent=2).encode() + b"\n")
    return commands


def switch(home: Home, compute: ComputeTarget, *, on: bool) -> None:
    """Run the command that switches the machine on or off, and wait for it to end."""
    command = compute.start_command if on else compute.stop_command
    key = "startCommand" if on else "stopCommand"
    if not command:
        raise ConfigError(
            f"{compute.name} has no {key}", where=f"{compute.name}.compute", hint=f"add the line {key}: COMMAND"
        )
    if _digest(command) not in _trusted(home):
        hint = f"read it, then: holdfast computetarget trust {compute.name}"
        raise ConfigError(f"{key} of {compute.name} is not trusted on this machine", answer=command, hint=hint)
    done = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise UnreachableError(
            f"{key} of {compute.name} failed with code {done.returncode}", answer=said[-2000:], hint=command
        )


def may_start(home: Home, compute: ComputeTarget) -> bool:
    return bool(compute.start_command) and _digest(str(compute.start_command)) in _trusted(home)


def wait_until_up(home: Home, compute: ComputeTarget, tell: Callable[[float], None]) -> None:
    """Until the machine answers; ``tell`` hears how long that takes."""
    begun = time.monotonic()
    while True:
        channel = connect(home, targets.resolve(compute, home.path))
        try:
            channel.hello()
            return
        except UnreachableError as error:
            waited = time.monotonic() - begun
            if waited > BOOT_LIMIT_S:
                what = f"{compute.name} was started {waited:.0f} s ago and does not answer"
                raise UnreachableError(what, where=error.where, answer=error.answer, hint=error.hint) from error
            tell(waited)
            time.sleep(_ASK_EVERY_S)
        finally:
            channel.close()


def is_up(home: Home, compute: ComputeTarget) -> bool:
    try:
        channel = connect(home, targets.resolve(compute, home.path, patience=3), LOOKING)
    except HoldfastError:
        return False
    try:
        return bool(channel.hello())
    except HoldfastError:
        return False
    finally:
        channel.close()


def _trusted(home: Home) -> dict[str, str]:
    try:
        with open(_file(home), encoding="utf-8") as source:
            found = json.load(source)
    except (OSError, ValueError):
        return {}
    return {str(digest): str(name) for digest, name in found.items()} if isinstance(found, dict) else {}


def _file(home: Home) -> str:
    return os.path.join(home.path, "trusted.json")


def _digest(command: str) -> str:
    return hashlib.sha256(command.encode("utf-8", "surrogateescape")).hexdigest()
