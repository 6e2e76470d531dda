"""The note of each data set: where it is, whether it is pinned, and the state in which its files were verified.

A note is changed under a lock and from what it is then, so that of two changes at once neither is lost, and no change
brings back the note of a set that was removed meanwhile.
"""

import contextlib
import json
import os
import sys

from .. import untrusted
from ..decoding import as_bytes
from ..machine import limits
from ..store import layout, lock_wait
from ..store.files import SYNCED, unlink_quietly, write_whole

assert sys.platform != "win32"  # a target is never Windows

MYPY = False
if MYPY:
    from collections.abc import Iterator

_LARGEST_NOTE = 1 << 16


def notes(home: "bytes") -> "Iterator[dict[str, object]]":
    """All sets that are known here."""
    folder = layout.data(home)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        note = read(home, name[:-5].decode("ascii", "replace")) if name.endswith(b".json") else None
        if note is not None:
            yield note


def read(home: "bytes", tree: "str") -> "dict[str, object] | None":
    try:
        data = untrusted.read_file(path(home, tree), _LARGEST_NOTE, follow=False)
        note = untrusted.loads(data)
        folder_of(note)  # type: ignore[arg-type]
        return note if isinstance(note, dict) and note["tree"] == tree else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if limits.explain(error):
            raise
        return None


def write(home: "bytes", note: "dict[str, object]") -> "None":
    """The note of a new set."""
    with _locked(home):
        _put(home, note)


def change(home: "bytes", tree: "str", **fields: "object") -> "bool":
    """Give these fields of a note new values; False where there is no such set any more."""
    with _locked(home):
        note = read(home, tree)
        if note is not None:
            _put(home, dict(note, **fields))
        return note is not None


def remove(home: "bytes", tree: "str") -> "None":
    with _locked(home):
        unlink_quietly(path(home, tree))


def folder_of(note: "dict[str, object]") -> "bytes":
    return as_bytes(note["at"])


def used_ns(home: "bytes", note: "dict[str, object]") -> "int":
    """When a run last used it; 0 for a set that is removed at this moment."""
    try:
        return os.stat(path(home, str(note["tree"]))).st_mtime_ns
    except FileNotFoundError:
        return 0


def touch(home: "bytes", tree: "str") -> "None":
    """Note that it is used now: ``clean`` leaves it alone for a while."""
    try:
        os.utime(path(home, tree))
    except OSError:
        pass  # a set that was removed at this moment; its user finds that out


def path(home: "bytes", tree: "str") -> "bytes":
    return layout.data_note(home, untrusted.hexadecimal(tree, 64).encode("ascii"))


def _put(home: "bytes", note: "dict[str, object]") -> "None":
    data = json.dumps(note, sort_keys=True).encode("ascii") + b"\n"
    write_whole(path(home, str(note["tree"])), data, sync=SYNCED)


@contextlib.contextmanager
def _locked(home: "bytes") -> "Iterator[None]":
    """Without the lock on file systems that have none."""
    os.makedirs(layout.data(home), 0o700, exist_ok=True)
    lock = layout.data_lock(home)
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            lock_wait.hold(fd, lock)
        except lock_wait.Held:
            raise
        except OSError:
            pass
        yield
    finally:
        os.close(fd)
