"""Comparing what we hold of a run with what its closing event says was written."""

from __future__ import annotations

import hashlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run

_BLOCK = 1024 * 1024


def differences(run: Run, closed: Json) -> list[str]:
    """One line for every file that is not as the runner left it; empty when all is well."""
    return [f"{name}: {problem}" for name, problem in damaged(run, closed).items()]


def damaged(run: Run, closed: Json) -> dict[str, str]:
    """What is wrong with each file that the closing event speaks of; of those in ``begun`` the beginning counts."""
    found = {}
    for kind in ("files", "begun"):
        files = closed.get(kind)
        for name, promised in files.items() if isinstance(files, dict) else ():
            if isinstance(promised, list) and len(promised) == 2:
                path = os.path.join(run.attempt, name)
                found[name] = compare(path, promised[0], promised[1], whole=kind == "files")
    return {name: problem for name, problem in found.items() if problem}


def compare(path: str, size: object, digest: object, *, whole: bool = True) -> str:
    """How a file differs from its length and hash; without ``whole`` it may have grown since. Empty if it does not."""
    state = hashlib.sha256()
    length = 0
    left = size if isinstance(size, int) and not whole else sys.maxsize
    try:
        with open(path, "rb") as source:
            while block := source.read(min(_BLOCK, left - length)):
                state.update(block)
                length += len(block)
    except OSError as error:
        return str(error)
    if length != size:
        return f"{length} bytes, but {size} were written"
    return "" if state.hexdigest() == digest else "its content has changed since it was written"
