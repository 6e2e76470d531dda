"""Writing ``trust.json``: what the user has confirmed, added and taken back under one lock."""

from __future__ import annotations

import os

from holdfast.runner.store import layout
from holdfast.runner.store.files import write_whole
from holdfast.trust import confirmations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.store.home import Home
    from holdfast.trust.confirmations import Confirmation, Confirmations


def begin(home: Home) -> None:
    """Make the file, so that machines which become known from now on do not count as known before."""
    if not os.path.exists(layout.trust(home.path)):
        _change(home, lambda stored: stored)


def confirm(home: Home, rows: Iterable[Confirmation], folder: str = "") -> None:
    """Add confirmed values, and the folder of another user if one is named."""

    def add(stored: Confirmations) -> Confirmations:
        new = [row for row in dict.fromkeys(rows) if row not in stored.confirmed]
        real = (os.path.realpath(folder),) if folder else ()
        folders = (*stored.folders, *(path for path in real if path not in stored.folders))
        return stored._replace(confirmed=(*stored.confirmed, *new), folders=folders)

    _change(home, add)


def forget(home: Home, project: str, target: str = "", machine: str = "") -> int:
    """Take back what was confirmed for a target of a project, or for all of it; returns how many rows that were.

    ``machine`` is the login that the target has, if it was known before there was such a file.
    """
    count = 0

    def drop(stored: Confirmations) -> Confirmations:
        nonlocal count
        gone = [row for row in stored.confirmed if row.project == project and target in ("", row.target)]
        folders = [path for path in stored.folders if target or path != project]
        machines = [name for name in stored.machines if name != machine]
        count = len(gone) + len(stored.folders) - len(folders) + len(stored.machines) - len(machines)
        kept = tuple(row for row in stored.confirmed if row not in gone)
        return stored._replace(confirmed=kept, folders=tuple(folders), machines=tuple(machines))

    _change(home, drop)
    return count


def _change(home: Home, change: Callable[[Confirmations], Confirmations]) -> None:
    with home.lock("trust"):
        changed = change(confirmations.read(home.path))
        write_whole(layout.trust(home.path), confirmations.to_json(changed))
