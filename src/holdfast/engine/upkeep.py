"""Once a day, on the way out of a command that had to wait anyway: what has outlived its time goes."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.home import Home

_DAY_S = 86400.0


def daily(home: Home) -> None:
    """Remove work folders and runs that the settings no longer keep. Snapshots are left to ``store prune``."""
    note = os.path.join(home.path, "cache", "upkeep")
    try:
        if _age(note) < _DAY_S:
            return
        with open(note, "w", encoding="ascii"):
            os.utime(note)
    except OSError:
        return  # a full or read-only disk must not change how the command ends
    from holdfast import settings
    from holdfast.store import prune
    from holdfast.store.index import Index

    index = Index(home)
    try:
        keep_work = settings.days(home.settings, "keepWork") or 0.0
        prune.expire(home, index.of_store(), settings.days(home.settings, "keepRuns"), keep_work, act=True)
    finally:
        index.close()


def _age(path: str) -> float:
    """The age of the note; the first time counts as fresh, so that a new store is not swept at once."""
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "w", encoding="ascii"):
            return 0.0
