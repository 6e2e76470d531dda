"""Removes truncated bytecode of our own modules (after a full disk, for example), on which Python would always fail."""

from __future__ import annotations

import marshal
import os
import sys

_HEADER = 16  # bytes before the code: magic number, flags, and what it was compiled from


def remove_damaged() -> int:
    """Remove what cannot be read, so that Python compiles it again; how many files that were."""
    count = 0
    for folder, _, names in os.walk(os.path.dirname(os.path.abspath(__file__))):
        for name in names:
            if name.endswith(f".{sys.implementation.cache_tag}.pyc") and _is_damaged(os.path.join(folder, name)):
                try:
                    os.unlink(os.path.join(folder, name))
                    count += 1
                except OSError:
                    continue
    return count


def _is_damaged(path: str) -> bool:
    try:
        with open(path, "rb") as source:
            marshal.loads(source.read()[_HEADER:])
    except OSError:
        return False
    except (EOFError, ValueError, TypeError):
        return True
    return False
