"""Compares the files of a run with the sizes and hashes of its closing event."""

from __future__ import annotations

import hashlib
import sys

from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.model import Json
    from holdfast.store.runs import Run

_BLOCK = 1024 * 1024
_CHANGED = "its content has changed since it was written"


def differences(run: Run, closed: Json) -> list[str]:
    """One line for every file that is not as the runner left it; empty when all is well."""
    return [f"{name}: {problem}" for name, problem in damaged(run, closed).items()]


def damaged(run: Run, closed: Json) -> dict[str, str]:
    """What is wrong with each file of the closing event; of those in ``begun`` the beginning counts."""
    problems = {}
    for name, size, digest, whole in promised(closed):
        try:
            path = untrusted.below(run.attempt, name)
        except untrusted.Untrusted as error:
            problems[name] = str(error)
        else:
            problems[name] = compare(path, size, digest, whole=whole)
    return {name: problem for name, problem in problems.items() if problem}


def promised(closed: Json) -> Iterator[tuple[str, object, object, bool]]:
    """Name, length and hash of each file of a closing event; of those in ``begun`` it is the beginning."""
    for kind in ("files", "begun"):
        files = closed.get(kind)
        for name, facts in files.items() if isinstance(files, dict) else ():
            if isinstance(facts, list) and len(facts) == 2:
                yield name, facts[0], facts[1], kind == "files"


def compare(path: str, size: object, digest: object, *, whole: bool = True, changed: str = _CHANGED) -> str:
    """How a file differs from its length and hash; empty if it does not.

    Without ``whole`` it may have grown since; ``changed`` says that its length is right and its content is not.
    """
    state = hashlib.sha256()
    length = 0
    left = max(size, 0) if isinstance(size, int) and not whole else sys.maxsize
    try:
        with open(untrusted.open_file(path, follow=False), "rb") as source:
            while block := source.read(min(_BLOCK, left - length)):
                state.update(block)
                length += len(block)
    except (OSError, untrusted.Untrusted) as error:
        return str(error)
    if length != size:
        return f"{length} bytes, but {size} were written"
    return "" if state.hexdigest() == digest else changed
