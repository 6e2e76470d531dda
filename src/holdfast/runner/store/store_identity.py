"""The identity of a store: a random id, made on first use."""

import os

from .. import json_text, wire
from . import layout
from .files import SYNCED, WholeFile

LAYOUT = 1


def store_identity(home: "bytes") -> "str":
    """The random id of the store in this home; made on first use."""
    path = layout.identity(home)
    for _ in range(2):
        try:
            with open(path, "rb") as source:
                return str(json_text.loads(source.read().decode("utf-8"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise OSError("%s is damaged: %s" % (os.fsdecode(path), error)) from error
        except FileNotFoundError:
            os.makedirs(home, 0o700, exist_ok=True)
            _make_store(path)
    raise OSError("no store could be created in %s" % os.fsdecode(home))


def _make_store(path: "bytes") -> "None":
    """Several clients may come first at once: the one whose link succeeds has named the store."""
    identity = {"id": os.urandom(16).hex(), "layout": LAYOUT}
    try:
        with WholeFile(path, sync=SYNCED, new=True) as target:
            target.write(wire.dumps(identity) + b"\n")
    except FileExistsError:
        pass
