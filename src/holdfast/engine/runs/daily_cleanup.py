"""Removes expired runs and work folders once a day, at the end of a command that waited anyway."""

from __future__ import annotations

import os
import time

from holdfast.runner.store import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.store.home import Home
    from holdfast.store.prune import Keep

_DAY_S = 86400.0


def daily(home: Home, tell: Callable[[str], None]) -> None:
    """Remove work folders and runs that the settings no longer keep. Snapshots are left to ``store prune``."""
    note = layout.upkeep(home.path)
    try:
        if _age(note) < _DAY_S:
            return
        with open(note, "w", encoding="ascii"):
            os.utime(note)
    except OSError:
        return  # a full or read-only disk must not change how the command ends
    from holdfast.engine.runs.open_index import open_index
    from holdfast.store import prune

    keep = kept(home)
    if keep.clock.doubt:
        tell(f"{keep.clock.doubt}; age-based deletion is suspended: see holdfast store prune")
        return
    index = open_index(home)
    try:
        prune.expire(home, index.of_store(), keep, act=True)
    finally:
        index.close()


def kept(home: Home, runs: float | None = None, *, clock_is_right: bool = False) -> Keep:
    """What the settings keep; ``runs`` in the place of keepRuns."""
    from holdfast import settings
    from holdfast.runner.machine import clock
    from holdfast.store.prune import Keep

    return Keep(
        settings.days(home.settings, "keepRuns") if runs is None else runs,
        settings.days(home.settings, "keepWork") or 0.0,
        settings.days(home.settings, "keepTrash") or 0.0,
        clock.look(os.fsencode(home.path), clock_is_right),
    )


def _age(path: str) -> float:
    """The age of the note; the first time counts as fresh, so that a new store is not swept at once."""
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "w", encoding="ascii"):
            return 0.0
