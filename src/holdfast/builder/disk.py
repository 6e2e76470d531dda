"""Checks that there is enough disk space for an environment, and reports a full disk."""

from __future__ import annotations

import os
import shutil
from typing import Any

from .failure import HINTS, Failed

# A conda archive is kept unpacked, at about four times its size, and is on the disk itself while that happens.
CONDA_UNPACKED = 5
# A wheel is unpacked as it comes; its bytecode and what is written beside it come on top.
WHEEL_UNPACKED = 3


def needed(lock: dict[str, Any] | None) -> int:
    """What the lock's packages take when none is in the cache, as far as channels and indexes tell sizes."""
    lock = lock or {}
    archives = sum(package.get("size") or 0 for package in lock.get("conda") or ())
    return archives * CONDA_UNPACKED + (lock.get("pip_bytes") or 0) * WHEEL_UNPACKED


def full(request: dict[str, Any]) -> Failed:
    """Said when the space is too small, before or in the middle."""
    path = _existing(request.get("beside") or request["cache"])
    estimate = needed(request.get("lock"))
    wanted = f"about {_megabytes(estimate)} are needed" if estimate else "the disk is full"
    return Failed("disk", f"{wanted}, {_megabytes(free(path))} are free", where=path, hint=HINTS["disk"])


def free(path: str) -> int:
    return shutil.disk_usage(_existing(path)).free


def _existing(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(os.path.abspath(path))
    return path


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
