"""Converts errors of the operating system (disk full, limits, closed streams) into errors of Holdfast."""

from __future__ import annotations

import errno
import os
from shlex import quote

from holdfast.errors import ConfigError, HoldfastError, ResourceError, StoreError, UsageError
from holdfast.runner.machine import limits
from holdfast.runner.store.lock_wait import Held
from holdfast.runner.untrusted import Untrusted
from holdfast.store.locks import locked

OUTPUT = "<stdout>"  # as the name of a file, in errors of writing to it
_ROOM = "holdfast du shows disk usage, holdfast store prune frees space"
_ELSEWHERE = "if it is in the store: set HOLDFAST_HOME to a folder you can write to"
_DISK = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("disk quota exceeded", _ROOM),
    errno.EROFS: ("the disk is read-only", _ELSEWHERE),
    errno.EACCES: ("permission denied", _ELSEWHERE),
    errno.EPERM: ("permission denied", _ELSEWHERE),
    errno.EIO: ("disk I/O error", "back up your data; holdfast store verify shows what is damaged"),
}
# No caller expected one of these: the file or folder became another one between a look at it and its use.
_REPLACED = ("a file or folder was removed or replaced during use", "try again when no other program changes it")
_NAMES = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EEXIST, errno.ENOTEMPTY)
_DISK.update(dict.fromkeys(_NAMES, _REPLACED))


def translate(error: Exception) -> HoldfastError | None:
    """None for what can only be a bug of ours."""
    if isinstance(error, Untrusted):
        return ConfigError("a name or file from an untrusted source was refused", answer=str(error))
    if isinstance(error, Held):
        return locked(os.fsdecode(error.filename), error.holders)
    if isinstance(error, (OSError, MemoryError)) and limits.explain(error):
        return ResourceError("a limit of this machine was reached", answer=str(error), hint=limits.explain(error))
    if isinstance(error, (EOFError, ValueError, TypeError)):
        return _damaged_bytecode()
    if not isinstance(error, OSError):
        return None
    if error.filename == OUTPUT:
        return output_error(error)
    if isinstance(error, FileNotFoundError) and not _has_current_folder():
        return UsageError("the current folder no longer exists", answer=str(error), hint="cd to a folder that exists")
    where = "" if error.filename is None else os.fsdecode(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        return UsageError("a file name is too long for the disk", where=where, hint="use a shorter name")
    if error.errno not in _DISK:
        return None
    what, hint = _DISK[error.errno]
    return StoreError(what, where=where, answer=os.strerror(error.errno), hint=hint)


def target_disk_error(number: str, target: str, folder: str | None, verb: str, answer: str) -> StoreError:
    """``number`` is the name of the errno that the runner reported for the request ``verb``."""
    what, hint = f"disk error on the target during {verb}", "check whether it is full or read-only"
    if number in ("ENOSPC", "EDQUOT"):
        what, hint = f"the disk of {target} is full", room_hint(target)
    elif number == "EROFS":
        what, hint = f"the disk of {target} is read-only", "mount it writable, or use another folder as root:"
    return StoreError(what, where=folder or target, answer=answer, hint=hint)


def room_hint(target: str) -> str:
    """The commands that free space on the disk of a target."""
    if target == "local":
        return "holdfast du shows disk usage; holdfast delete --now and holdfast store prune free space"
    return f"holdfast clean -c {quote(target)} removes what ended runs left there"


def output_error(error: OSError) -> StoreError:
    hint = "check whether it is closed or its disk is full"
    return StoreError("standard output cannot be written", answer=str(error.strerror), hint=hint)


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _damaged_bytecode() -> StoreError | None:
    """Compiled modules of ours that a full disk cut short; None where all can be read."""
    from holdfast import bytecode

    count = bytecode.remove_damaged()
    what, hint = f"{count} compiled modules of Holdfast were damaged and are removed", "run the command again"
    return StoreError(what, where=os.path.dirname(bytecode.__file__), hint=hint) if count else None
