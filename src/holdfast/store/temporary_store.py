"""The store of a command that only looks at a machine; where there is none, one that is removed afterwards."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager

from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.home import Home


@contextmanager
def store_to_look_from() -> Iterator[Home]:
    home = open_home(create=False)
    if home.id:
        yield home
        return
    before = os.environ.get("HOLDFAST_HOME")
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as folder:
        os.environ["HOLDFAST_HOME"] = folder  # also for the runner, which is a process of its own
        try:
            yield open_home()
        finally:
            os.environ.pop("HOLDFAST_HOME")
            if before is not None:
                os.environ["HOLDFAST_HOME"] = before
