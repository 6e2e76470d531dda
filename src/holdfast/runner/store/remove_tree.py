"""Removes a folder with its content, at any depth and with any file modes."""

import os
import stat

MYPY = False
if MYPY:
    from collections.abc import Callable


def remove_tree(path: "bytes") -> "None":
    """Remove as much as possible; what is open elsewhere or protected stays. Never raises for it.

    Folders inside are moved up to the top one before they are emptied. So no path grows longer than two names and
    nothing recurses: a script may well leave a folder nested deeper than any path or stack can be. Of a link only the
    link is removed.
    """
    if os.path.islink(path):
        _try(os.unlink, path)
        return
    number = 0
    waiting = True
    while waiting:
        waiting = False
        for name in _names(path):
            inner = os.path.join(path, name)
            if not _is_folder(inner):
                _try(os.unlink, inner)
                continue
            for below in _names(inner):
                target = os.path.join(inner, below)
                if _is_folder(target):
                    number += 1
                    waiting = _try(os.rename, target, os.path.join(path, b".removing-%d" % number)) or waiting
                else:
                    _try(os.unlink, target)
            _try(os.rmdir, inner)
    _try(os.rmdir, path)


def _names(folder: "bytes") -> "list[bytes]":
    try:
        return os.listdir(folder)
    except PermissionError:
        _try(os.chmod, folder, stat.S_IRWXU)
    except OSError:
        return []
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _is_folder(path: "bytes") -> "bool":
    return os.path.isdir(path) and not os.path.islink(path)


def _try(do: "Callable[..., object]", path: "bytes", *more: "object") -> "bool":
    """Whether it could be done; where a mode forbids it, the folders concerned are opened up and it is tried again."""
    for last in (False, True):
        try:
            do(path, *more)
            return True
        except PermissionError:
            if last:
                return False
            _open_up(path)
        except OSError:
            return False
    return False


def _open_up(path: "bytes") -> "None":
    for folder in (path, os.path.dirname(path)):
        try:
            if _is_folder(folder):
                os.chmod(folder, stat.S_IRWXU)
        except OSError:
            continue
