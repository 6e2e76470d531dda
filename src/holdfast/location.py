"""Where the store of this user and the files of this package are."""

from __future__ import annotations

import os

from holdfast.errors import StoreError
from holdfast.runner.store import layout

PACKAGE = os.path.dirname(os.path.abspath(__file__))  # inside a run ``holdfast`` itself is a single file elsewhere
HINT = "set HOLDFAST_HOME to a folder you can write to"
# Made when its user submits, imports, attaches or sets something; not by a look, nor by runs of other clients.
_OF_THE_USER = (
    *(layout.numbers, layout.trash, layout.targets, layout.settings, layout.templates),
    *(layout.saved, layout.assets, layout.trust, layout.old_trust),
)


def location() -> str:
    """$HOLDFAST_HOME, else ~/.holdfast if it is in use or $XDG_DATA_HOME is not set, else $XDG_DATA_HOME/holdfast."""
    return located()[0]


def located() -> tuple[str, str]:
    """The folder of the store, and what decided it."""
    folder = os.environ.get("HOLDFAST_HOME")
    if folder:
        return os.path.abspath(os.path.expanduser(folder)), "HOLDFAST_HOME"
    # An empty HOME would mean the root folder.
    home = os.path.expanduser("~") if os.environ.get("HOME", "unset") else ""
    is_home = os.path.isabs(home) and os.path.isdir(home)
    store = os.path.join(home, ".holdfast")
    data = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(data):
        other = os.path.join(data, "holdfast")
        if not (is_home and os.path.lexists(store)) or (
            os.path.lexists(layout.identity(other)) and not _is_used(store)
        ):
            return other, "XDG_DATA_HOME"
    if not is_home:
        raise StoreError("there is no home directory for the store", where=home, hint=HINT)
    return store, "~/.holdfast"


def _is_used(store: str) -> bool:
    """Whether a store has more than a look at it leaves, or than a target has that other clients use."""
    return any(os.path.lexists(path(store)) for path in _OF_THE_USER)
