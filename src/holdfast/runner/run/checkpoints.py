"""The folder of checkpoints, which outlives the attempts of a run: a further attempt takes it over from the last one.

It is a part of ``outputs/``, so that a container mounts it, results bring it home and cleaning up removes it.
"""

import os

from ..store import layout
from ..store.remove_tree import remove_tree


def take_over(attempt: "bytes") -> "str":
    """Make the folder of this attempt, with what the newest earlier attempt left there; returns that one's name."""
    mine = layout.checkpoints(layout.work(attempt))
    for name in _earlier(attempt):
        theirs = layout.checkpoints(layout.work(os.path.join(os.path.dirname(attempt), name)))
        if not os.path.islink(theirs) and _has_entries(theirs):
            remove_tree(mine)  # a copy from the project; the earlier attempt had it too
            os.rename(theirs, mine)
            return name.decode("ascii")
    os.makedirs(mine, 0o700, exist_ok=True)
    return ""


def drop_if_empty(attempt: "bytes") -> "None":
    """A script that keeps no checkpoints leaves no folder."""
    try:
        os.rmdir(layout.checkpoints(layout.work(attempt)))
    except OSError:
        return


def _earlier(attempt: "bytes") -> "list[bytes]":
    """Names of the attempts before this one, the newest first."""
    own = os.path.basename(attempt)
    number = int(own[1:]) if own[1:].isdigit() else 1
    return [b"a%d" % earlier for earlier in range(number - 1, 0, -1)]


def _has_entries(folder: "bytes") -> "bool":
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False
