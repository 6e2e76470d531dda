"""Lists the runs in this store, of all clients."""

import json
import os

from ..decoding import as_bytes, lossless
from ..plan import read_plan
from ..run import outputs
from . import layout, run_files

MYPY = False
if MYPY:
    from collections.abc import Iterator

    from ..plan import Plan


def runs(home: "bytes") -> "Iterator[dict[str, object]]":
    """Every run that was started here: its uid, what its client wrote of it, and its attempts in order.

    One that has no attempt yet belongs to the client that is starting it and is left out.
    """
    folder = layout.runs(home)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        attempts = _attempts(os.path.join(folder, name))
        request = _read(layout.request(os.path.join(folder, name)))
        if attempts and request is not None:
            yield {"uid": lossless(name), "request": request, "attempts": attempts}


def unlisted(home: "bytes", run: "dict[str, object]") -> "dict[str, int]":
    """Number and bytes of a run's outputs that no manifest lists, and that were therefore never fetched."""
    folder = layout.run(home, as_bytes(run["uid"]))
    counts = [outputs.unlisted(os.path.join(folder, name.encode("ascii"))) for name in run["attempts"]]  # type: ignore[attr-defined]
    return {"files": sum(files for files, _ in counts), "bytes": sum(size for _, size in counts)}


def environments_elsewhere(home: "bytes") -> "set[str]":
    """Keys of environments that runs of other nodes may be using: the locks that they hold are not seen here."""
    return {plan.environment.key for plan in _plans_elsewhere(home) if plan.environment is not None}


def data_elsewhere(home: "bytes") -> "set[str]":
    """The same for data sets."""
    return {data.tree for plan in _plans_elsewhere(home) for data in plan.data if data.tree}


def _plans_elsewhere(home: "bytes") -> "Iterator[Plan]":
    for run in runs(home):
        folder = layout.run(home, as_bytes(run["uid"]))
        for name in run["attempts"]:  # type: ignore[attr-defined]
            attempt = os.path.join(folder, name.encode("ascii"))
            plan = read_plan(attempt) if not run_files.is_held(attempt) and run_files.may_live(attempt) else None
            if plan is not None:
                yield plan


def _attempts(run: "bytes") -> "list[str]":
    try:
        names = [name for name in os.listdir(run) if name[:1] == b"a" and name[1:].isdigit()]
    except OSError:
        return []
    return [name.decode("ascii") for name in sorted(names, key=lambda name: int(name[1:]))]


def _read(path: "bytes") -> "dict[str, object] | None":
    try:
        with open(path, "rb") as source:
            document = json.loads(source.read().decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
