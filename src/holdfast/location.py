"""Where the store of this user and the files of this package are."""

from __future__ import annotations

import os

from holdfast.errors import StoreError

PACKAGE = os.path.dirname(os.path.abspath(__file__))  # inside a run ``holdfast`` itself is a single file elsewhere
HINT = "set HOLDFAST_HOME to a folder you can write to"


def location() -> str:
    """$HOLDFAST_HOME, else ~/.holdfast."""
    asked = os.environ.get("HOLDFAST_HOME")
    if asked:
        return os.path.abspath(os.path.expanduser(asked))
    # An empty HOME would mean the root folder.
    home = os.path.expanduser("~") if os.environ.get("HOME", "unset") else ""
    if not os.path.isabs(home) or not os.path.isdir(home):
        raise StoreError("there is no home directory for the store", where=home, hint=HINT)
    return os.path.join(home, ".holdfast")
