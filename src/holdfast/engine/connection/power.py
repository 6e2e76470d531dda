"""Switches machines on and off with the user's ``startCommand`` and ``stopCommand``.

The commands come from a project's file and run on this machine: they are run only after the user has confirmed them
(``trust_policy``). A changed command has to be confirmed again.
"""

from __future__ import annotations

import subprocess
import time

from holdfast import target_lookup
from holdfast.engine.connection.channel import ASKING, LOOKING, connect
from holdfast.engine.submit import confirmation
from holdfast.errors import ConfigError, HoldfastError, UnreachableError
from holdfast.runner.decoding import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.store.home import Home

BOOT_LIMIT_S = 900.0
_ASK_EVERY_S = 2.0


def command_key(*, on: bool) -> str:
    return "startCommand" if on else "stopCommand"


def switch(home: Home, root: str, compute: ComputeTarget, *, on: bool) -> None:
    """Run the command that switches the machine on or off, and wait for it to end. ``root`` is the project's folder."""
    command = compute.start_command if on else compute.stop_command
    key = command_key(on=on)
    if not command:
        raise ConfigError(
            f"{compute.name} has no {key}", where=f"{compute.name}.compute", hint=f"add the line {key}: COMMAND"
        )
    if not confirmation.is_confirmed(home.path, root, compute, key):
        from shlex import quote

        hint = f"review it, then: holdfast trust {quote(compute.name)}"
        raise ConfigError(f"{key} of {compute.name} is not confirmed on this machine", answer=command, hint=hint)
    done = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        output = readable(done.stderr or done.stdout).strip()
        raise UnreachableError(
            f"{key} of {compute.name} failed with code {done.returncode}", answer=output[-2000:], hint=command
        )


def bring_up(home: Home, root: str, compute: ComputeTarget, tell: Callable[[float], None]) -> None:
    """Switch a machine on and wait for its answer; ``tell`` is called with the elapsed time."""
    tell(0.0)
    switch(home, root, compute, on=True)
    wait_until_up(home, compute, tell)


def may_start(home: Home, root: str, compute: ComputeTarget) -> bool:
    return bool(compute.start_command) and confirmation.is_confirmed(home.path, root, compute, command_key(on=True))


def wait_until_up(home: Home, compute: ComputeTarget, tell: Callable[[float], None]) -> None:
    """Wait until the machine answers; ``tell`` is called with the elapsed time."""
    begun = time.monotonic()
    while True:
        channel = connect(home, target_lookup.resolve(compute, home.path), ASKING)
        try:
            channel.hello()
            return
        except UnreachableError as error:
            waited = time.monotonic() - begun
            if waited > BOOT_LIMIT_S:
                what = f"{compute.name} was started {waited:.0f} s ago and does not respond"
                raise UnreachableError(what, where=error.where, answer=error.answer, hint=error.hint) from error
            tell(waited)
            time.sleep(_ASK_EVERY_S)
        finally:
            channel.close()


def is_up(home: Home, compute: ComputeTarget) -> bool:
    try:
        channel = connect(home, target_lookup.resolve(compute, home.path, patience=3), LOOKING)
    except HoldfastError:
        return False
    try:
        return bool(channel.hello())
    except HoldfastError:
        return False
    finally:
        channel.close()
