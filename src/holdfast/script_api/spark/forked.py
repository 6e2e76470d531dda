"""Work that a process must leave to the one it was forked from: JVM, session and folders belong to the latter."""

import functools
import os

MYPY = False
if MYPY:
    from typing import Any


def not_in_children(work: "Any") -> "Any":
    """``work``, which does nothing in processes that are forked from this one."""
    owner = os.getpid()

    @functools.wraps(work)
    def guarded(*arguments: "Any", **named: "Any") -> "Any":
        return work(*arguments, **named) if os.getpid() == owner else None

    return guarded
