"""Data sets that no run uses and that were not pinned, and what was sent of sets that were never finished."""

import os

from ..data import data_notes, data_sets
from ..decoding import as_bytes
from ..store import layout, object_removal, objects, run_list
from ..store.files import is_temporary, unlink_quietly
from ..store.remove_tree import remove_tree

MYPY = False
if MYPY:
    from collections.abc import Callable

    from ..machine.clock import Clock
    from .clean import Part


def find(home: "bytes", shared: "str", part: "Part", now: "Clock", size_of: "Callable[[bytes], int]") -> "Part":
    """``shared``: the folder that users of the machine share, or empty."""
    if not os.path.isdir(layout.data(home)) or os.path.islink(layout.data(home)):
        return part
    elsewhere = run_list.data_elsewhere(home)
    notes = list(data_notes.notes(home))
    for note in notes:
        size = size_of(data_notes.folder_of(note)) if note.get("ours") is True else 0
        if note.get("pinned") is True:
            part.leave("pinned")
        elif str(note["tree"]) in elsewhere or data_sets.is_used(note):
            part.leave("in use")
        else:
            path = layout.data_note(home, as_bytes(note["tree"]))
            part.add_aged(now, path, lambda note=note: data_sets.remove(home, note), size)  # type: ignore[misc]
    roots = {as_bytes(note["objects"]) for note in notes} | {
        data_sets.place(home, "")[1],
        data_sets.place(home, shared)[1],
    }
    for root in sorted(roots):
        _unfinished(home, root, part, now, size_of)
    for name in os.listdir(layout.data(home)):
        path = os.path.join(layout.data(home), name)
        if is_temporary(path):
            remove = remove_tree if os.path.isdir(path) else unlink_quietly
            part.add_aged(now, path, lambda path=path, remove=remove: remove(path), size_of(path))  # type: ignore[misc]
    return part


def _unfinished(home: "bytes", root: "bytes", part: "Part", now: "Clock", size_of: "Callable[[bytes], int]") -> "None":
    """Objects of no set; those of a set that is removed go with it."""
    try:
        needed = data_sets.needed_objects(home, root)
    except objects.Damaged as error:
        part.leave("%s" % error)
        return
    paths = [path for path, digest in object_removal.stored(root) if digest not in needed]
    begun = layout.arriving(root)
    paths += [os.path.join(begun, name) for name in os.listdir(begun)] if os.path.isdir(begun) else []
    for path in paths:
        part.add_aged(now, path, lambda path=path: unlink_quietly(path), size_of(path))  # type: ignore[misc]
