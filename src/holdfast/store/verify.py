"""Comparing what we hold of a run with what its closing event says was written."""

from __future__ import annotations

import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json
    from holdfast.store.runs import Run

_BLOCK = 1024 * 1024


def differences(run: Run, closed: Json) -> list[str]:
    """One line for every file that is not as the runner left it; empty when all is well."""
    files = closed.get("files")
    found = []
    for name, promised in files.items() if isinstance(files, dict) else ():
        if isinstance(promised, list) and len(promised) == 2:
            problem = _compare(os.path.join(run.attempt, name), promised[0], promised[1])
            if problem:
                found.append(f"{name}: {problem}")
    return found


def _compare(path: str, size: object, digest: object) -> str:
    state = hashlib.sha256()
    length = 0
    try:
        with open(path, "rb") as source:
            while block := source.read(_BLOCK):
                state.update(block)
                length += len(block)
    except OSError as error:
        return str(error)
    if length != size:
        return f"{length} bytes, but {size} were written"
    return "" if state.hexdigest() == digest else "its content has changed since it was written"
