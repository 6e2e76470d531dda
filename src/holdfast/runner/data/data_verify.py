"""Reads all content of data sets, whatever their state says: a disk may change bits without a trace."""

from ..decoding import as_bytes
from ..store import object_removal, objects
from ..store.data_state import VerifiedObjects
from ..store.exclusive_lock import InUse
from ..store.files import unlink_quietly
from . import data_notes, data_sets

MYPY = False
if MYPY:
    from collections.abc import Iterator


def verify(home: "bytes", note: "dict[str, object]") -> "dict[str, object]":
    """Damaged objects are removed, and a set that has any is given up: the next submit sends what is missing."""
    root, tree, folder = as_bytes(note["objects"]), str(note["tree"]), data_notes.folder_of(note)
    is_own = note.get("ours") is True
    try:
        if is_own:
            _verify_objects(root, tree)
        damaged = data_sets.verify(root, tree, folder, VerifiedObjects(root) if is_own else None)
    except (OSError, objects.Damaged):
        damaged = [""]
    if not damaged:
        return {"state": "intact", "damaged": 0}
    for digest in damaged if is_own else ():
        if digest:
            unlink_quietly(objects.object_path(root, digest))
    return {"state": _give_up(home, note), "damaged": len(damaged)}


def unfinished(home: "bytes") -> "dict[str, object]":
    """The same for objects that belong to no set, such as those of an upload that was cut off."""
    files = damaged = 0
    roots = {as_bytes(note["objects"]) for note in data_notes.notes(home) if note.get("ours") is True}
    for root in roots | {data_sets.place(home, "")[1]}:
        try:
            needed = data_sets.needed_objects(home, root)
        except objects.Damaged:
            needed = set()
        for path, digest in object_removal.stored(root):
            if digest not in needed:
                files += 1
                if not data_sets.is_content(path, digest):
                    damaged += 1
                    unlink_quietly(path)
    return {"state": "damaged" if damaged else "intact", "files": files, "damaged": damaged}


def _verify_objects(root: "bytes", tree: "str") -> "None":
    """Those that are wrong, or not there, no longer count as verified."""
    verified = VerifiedObjects(root)
    for entry in _files(root, tree):
        if data_sets.is_content(objects.object_path(root, entry.digest), entry.digest, entry.size):
            verified.add(entry.digest)
        else:
            verified.drop(entry.digest)
    verified.save()


def _files(root: "bytes", tree: "str") -> "Iterator[objects.Entry]":
    """The files below a tree, each content once."""
    seen, waiting = set(), [tree]  # type: set[str], list[str]
    while waiting:
        for entry in objects.read_tree(root, waiting.pop()):
            if entry.digest not in seen:
                seen.add(entry.digest)
                if entry.kind == "dir":
                    waiting.append(entry.digest)
                else:
                    yield entry


def _give_up(home: "bytes", note: "dict[str, object]") -> "str":
    try:
        data_sets.give_up(home, note)
        return "damaged"
    except InUse:  # the run that has it ends with a warning, and the next one finds it unverified
        data_notes.change(home, str(note["tree"]), state="")
        return "in-use"
