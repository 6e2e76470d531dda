"""Finds files and folders of other users, not used without confirmation, as with git's ``safe.directory``."""

from __future__ import annotations

import os
import sys

from holdfast.runner.untrusted import own_ids


def foreign_owner(path: str) -> int | None:
    """The owner of a path, or of what its link leads to, if that is another user; None for our own and for nothing.

    Files of root count as our own: root can change everything here anyway. Under sudo so do those of the caller.
    """
    if sys.platform == "win32":
        return None  # folders have no owner in this sense there
    ours = (0, *own_ids())
    for look in (os.lstat, os.stat):
        try:
            owner = look(path).st_uid
        except OSError:
            continue
        if owner not in ours:
            return owner
    return None


def is_own_folder(path: str) -> bool:
    """Whether a folder belongs to this user, not merely to root."""
    try:
        return sys.platform == "win32" or os.stat(path).st_uid in own_ids()
    except OSError:
        return False


def is_shared(path: str) -> bool:
    """Whether a folder, as /tmp, is one that every user puts files into and that is not this user's."""
    return not is_own_folder(path) and bool(os.stat(path).st_mode & 0o002)


def is_changeable_by_others(path: str) -> bool:
    """Whether another user than us and root can replace the file: by its owner, or by write access for all.

    Every folder above it counts, links resolved. In a sticky folder only the owner of a file can replace it, but every
    user can put one where there is none.
    """
    if sys.platform == "win32":
        return False
    trusted = (0, *own_ids())
    above, is_missing = os.path.realpath(path), False
    while True:
        try:
            status = os.stat(above)
            is_open = status.st_mode & 0o002 and (is_missing or status.st_mode & 0o041000 != 0o041000)
            if status.st_uid not in trusted or is_open:
                return True
            is_missing = False
        except FileNotFoundError:
            is_missing = True
        except OSError:
            return True
        parent = os.path.dirname(above)
        if parent == above:
            return False
        above = parent
