"""Asks for confirmation at a terminal, and refuses where there is none."""

from __future__ import annotations

import os
import sys

from holdfast import target_lookup
from holdfast.engine.submit import confirmation
from holdfast.engine.submit.prepare import LARGE
from holdfast.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parse import Parsed
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.snapshot.snapshot import Pending
    from holdfast.target_lookup import Chosen


def choose(home: str, root: str, name: str, target: str | None = None) -> Chosen:
    """The run configuration and target of that name for a command that will use it: whatever needs it is confirmed.

    ``home`` is the store's folder, ``root`` the project's.
    """
    chosen = target_lookup.choose(target_lookup.folders(root, home), name, target)
    confirm(home, root, chosen)
    return chosen


class ConnectedTarget:
    """The target that a command names by ``-c``; the connection is closed at the end of the ``with`` block."""

    def __init__(self, parsed: Parsed) -> None:
        from holdfast.cli.reach import tell_quiet
        from holdfast.engine.connection.channel import ASKING, connect
        from holdfast.project import find
        from holdfast.store.home import open_home

        home = open_home()
        compute = choose(
            home.path, find(parsed.text("project") or os.getcwd()).root, parsed.text("config") or ""
        ).compute
        self.name = compute.name
        self.engine = compute.engine
        self.channel: RunnerChannel = connect(home, target_lookup.resolve(compute, home.path), ASKING, tell_quiet)

    def __enter__(self) -> ConnectedTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()


def confirm(home: str, root: str, chosen: Chosen, keys: Sequence[str] | None = None) -> None:
    """Ask for what is not confirmed yet, and remember a yes. ``keys``: only because of these."""
    pending = confirmation.look(home, root, chosen, keys)
    if pending is None:
        return
    from holdfast.present.terminal import is_tty

    if not (is_tty(sys.stdin) and is_tty(sys.stderr)):
        raise confirmation.refusal(home, pending)
    if not _agrees(home, pending):
        raise UsageError("nothing was sent", where=pending.subject, hint=f"confirm it with: {pending.command}")
    from holdfast.store import trust_file
    from holdfast.store.home import open_home

    trust_file.confirm(open_home(), pending.rows)


def agree_to_store(pending: Pending, hint: str, *, sure: bool) -> None:
    """Ask before storing more than a gigabyte of new files: often a data folder that was forgotten."""
    if pending.new_bytes <= LARGE or sure:
        return
    from holdfast.present.terminal import human_bytes, is_tty, show

    rows = "\n".join(f"{human_bytes(size):>10}  {show(path)}" for path, size in pending.largest())
    sys.stderr.write(f"{human_bytes(pending.new_bytes)} of new files would be stored. The largest:\n{rows}\n")
    if is_tty(sys.stdin) and is_tty(sys.stderr):
        sys.stderr.write("Continue? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError("nothing was done", hint=hint)


def _agrees(home: str, pending: confirmation.Open) -> bool:
    from holdfast.present.terminal import show

    sys.stderr.write(f"{show(pending.subject)} needs permissions that are not confirmed on this machine:\n")
    for permission in pending.missing:
        sys.stderr.write(f"  {show(permission.shown)}\n    {show(confirmation.place(home, pending, permission))}\n")
    sys.stderr.write("Allow this from now on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
