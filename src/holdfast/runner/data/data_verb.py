"""Answers the request ``data``: make a data set of what was sent, list the sets, pin or remove them."""

import os

from .. import untrusted
from ..store import objects
from ..store.exclusive_lock import InUse
from . import data_notes, data_sets, data_verify

MYPY = False
if MYPY:
    from ..store.uploads import Arrivals


def answer(home: "bytes", header: "dict[str, object]", arrivals: "Arrivals") -> "dict[str, object]":
    """``act``: make, list, pin, unpin, remove or verify; to verify without a tree is for what belongs to no set."""
    act = header.get("act")
    if act == "list":
        return {"sets": [_row(home, note) for note in data_notes.notes(home)]}
    if act == "verify" and not header.get("tree"):
        return data_verify.unfinished(home)
    tree = untrusted.hexadecimal(header["tree"], 64)
    if act == "make":
        return _make(home, tree, str(header.get("data") or ""), str(header.get("name") or ""), arrivals)
    note = data_notes.read(home, tree)
    if note is None:
        return {"state": "absent"}
    if act in ("pin", "unpin"):
        is_there = data_notes.change(home, tree, pinned=act == "pin")
        return {"state": "done" if is_there else "absent"}
    if act == "verify":
        return data_verify.verify(home, note)
    if act != "remove":
        raise ValueError("data: unknown act %r" % (act,))
    try:
        data_sets.remove(home, note)
    except InUse:
        return {"state": "in-use"}
    return {"state": "done"}


def _make(home: "bytes", tree: "str", shared: "str", name: "str", arrivals: "Arrivals") -> "dict[str, object]":
    refused, remark = arrivals.take_refusal(), _remark(home, shared)
    folder = data_sets.find(home, tree, shared)
    if folder is None:
        root = data_sets.place(home, shared)[1]
        try:
            absent = objects.missing(root, tree)
            if absent:
                return {"state": "missing", "refused": refused, "remark": remark}
            data_sets.make(home, tree, shared)
        except objects.Damaged as error:
            objects.discard(root, error.digest)
            return {"state": "missing", "refused": refused or str(error), "remark": remark}
    data_notes.touch(home, tree)
    note = data_notes.read(home, tree)
    if note is not None and name and not note.get("name"):
        data_notes.change(home, tree, name=name)
    return {"state": "here", "remark": remark}


def _remark(home: "bytes", shared: "str") -> "str":
    """Why the shared folder is not used; empty if it is."""
    if not shared or data_sets.place(home, shared)[0] == os.path.expanduser(os.fsencode(shared)):
        return ""
    if not os.path.isabs(os.path.expanduser(shared)):
        return "sharedData: %s is not an absolute path" % shared
    if not os.path.isdir(os.path.expanduser(shared)):
        return "sharedData: %s does not exist on the target; data is kept for you alone" % shared
    return "sharedData: no data can be written to %s; yours is kept for you alone" % shared


def _row(home: "bytes", note: "dict[str, object]") -> "dict[str, object]":
    names = ("tree", "name", "files", "bytes", "pinned", "at")
    row = {name: note.get(name) for name in names}
    return dict(
        row, in_use=data_sets.is_used(note), shared=note.get("ours") is not True, used_ns=data_notes.used_ns(home, note)
    )
