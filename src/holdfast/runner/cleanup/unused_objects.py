"""Project files on a target that no run needs any more: objects of the store that is not the client's own.

Removal excludes uploads and starts by the lock of the object store: a start checks that all objects are there and
writes its run.json under the shared lock, so that a run that was accepted keeps its files. An upload that was not
started yet is recognised by its age; what it loses in spite of that is sent again, since the start finds it missing.
"""

import json
import os

from ..plan import read_plan
from ..store import fork_guard, layout, object_removal, objects
from ..store.files import is_temporary

MYPY = False
if MYPY:
    from ..machine.clock import Clock
    from .clean import Part


class Unknown(Exception):
    """What a run needs cannot be read: then nothing is removed."""


def row(home: "bytes", part: "Part", now: "Clock", going: "set[bytes]", act: "bool") -> "dict[str, object]":
    """``going`` are the names of run folders that would be removed; with ``act`` they are gone by now."""
    root = layout.objects(home)
    lock = None  # type: int | None
    if act and os.path.isdir(root):
        lock = object_removal.lock_for_removal(root)
        if lock is None:
            part.leave("project files are being received")
            return part.row(act)
    try:
        _find(home, part, now, set() if act else going)
        return part.row(act)
    finally:
        if lock is not None:
            fork_guard.close(lock)


def _find(home: "bytes", part: "Part", now: "Clock", going: "set[bytes]") -> "None":
    root = layout.objects(home)
    try:
        needed = _needed(home, root, going)
    except (Unknown, objects.Damaged) as error:
        part.leave("nothing is removed: %s" % error)
        return
    for path, digest in object_removal.stored(root):
        if digest not in needed:
            part.add_aged(now, path, lambda target=path: os.unlink(target))  # type: ignore[misc]


def _needed(home: "bytes", root: "bytes", going: "set[bytes]") -> "set[str]":
    """The digests of everything below the trees of all runs here, of all clients."""
    digests = set()  # type: set[str]
    folder = layout.runs(home)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in names:
        if name not in going and not name.endswith(b".deleted") and not is_temporary(name):
            try:
                for tree in _trees(os.path.join(folder, name)):
                    object_removal.mark(root, tree, digests)
            except ValueError as error:
                raise Unknown("the snapshot of the run %s: %s" % (os.fsdecode(name), error)) from None
    return digests


def _trees(run: "bytes") -> "set[str]":
    """The snapshot of a run; of one without a usable request, those that the plans of its attempts name."""
    try:
        with open(layout.request(run), "rb") as source:
            return {str(json.loads(source.read().decode("utf-8"))["tree"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    trees = set()
    for name in os.listdir(run):
        attempt = os.path.join(run, name)
        if os.path.lexists(layout.plan(attempt)):
            plan = read_plan(attempt)
            if plan is None:
                raise Unknown("the plan of the run %s cannot be read" % os.fsdecode(os.path.basename(run)))
            trees.add(plan.tree)
    return trees
