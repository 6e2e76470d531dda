"""Descriptors that forked children do not keep: a lock is held, and a pipe open, as long as any copy of one is open.

A program may fork in one thread (a process pool, a DataLoader) while another one submits a run.
"""

import os
from _thread import RLock

MYPY = False
if MYPY:
    from typing import AnyStr

_forking = RLock()  # nothing is forked between the opening of a descriptor and its entry here
_descriptors = set()  # type: set[int]


def open_file(path: "AnyStr", flags: "int", mode: "int" = 0o600) -> "int":
    with _forking:
        descriptor = os.open(path, flags, mode)
        _descriptors.add(descriptor)
    return descriptor


def adopt(*descriptors: "int") -> "None":
    """Take descriptors that are open already; ``close`` closes them from now on."""
    with _forking:
        _descriptors.update(descriptors)


def close(descriptor: "int") -> "None":
    """Close it; in a child that was forked meanwhile it is closed already."""
    with _forking:
        if descriptor in _descriptors:
            _descriptors.remove(descriptor)
            os.close(descriptor)


def _in_child() -> "None":
    for descriptor in _descriptors:
        try:
            os.close(descriptor)
        except OSError:
            pass  # the program closes descriptors that are not its own
    _descriptors.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):  # not before Python 3.7, and not on Windows
    os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_in_child)
