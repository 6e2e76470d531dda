"""Which runs there are in this store, whoever brought them."""

import json
import os

MYPY = False
if MYPY:
    from collections.abc import Iterator


def runs(home: "bytes") -> "Iterator[dict[str, object]]":
    """Every run that was started here: its uid, what its client wrote of it, and its attempts in order.

    One that has no attempt yet belongs to the client that is just starting it, and to nobody else.
    """
    folder = os.path.join(home, b"runs")
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names:
        attempts = _attempts(os.path.join(folder, name))
        request = _read(os.path.join(folder, name, b"run.json"))
        if attempts and request is not None:
            yield {"uid": name.decode("utf-8", "surrogateescape"), "request": request, "attempts": attempts}


def _attempts(run: "bytes") -> "list[str]":
    try:
        names = [name for name in os.listdir(run) if name[:1] == b"a" and name[1:].isdigit()]
    except OSError:
        return []
    return [name.decode("ascii") for name in sorted(names, key=lambda name: int(name[1:]))]


def _read(path: "bytes") -> "dict[str, object] | None":
    try:
        with open(path, "rb") as source:
            found = json.loads(source.read().decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
