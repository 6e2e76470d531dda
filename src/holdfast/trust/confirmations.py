"""What this user has confirmed on this machine, as the store's ``trust.json`` has it.

``confirmed`` lists values of a target in one project; ``folders`` are project folders of other users that may be used;
``machines`` are the logins that the store knew before there was such a file. Earlier versions kept the hashes of
trusted start and stop commands in ``trusted.json``; they still count.
"""

from __future__ import annotations

import os

from holdfast.errors import StoreError
from holdfast.record import Record
from holdfast.runner import json_text
from holdfast.runner.store import layout


class Confirmation(Record):
    """One value of a key that a target of one project may have. ``project`` is the folder, links resolved."""

    project: str
    target: str
    key: str
    value: str


class Confirmations(Record):
    confirmed: tuple[Confirmation, ...] = ()
    folders: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    old_commands: frozenset[str] = frozenset()


def read(home: str) -> Confirmations:
    """``home`` is the store. A store without the file knows the machines that it keeps a login for."""
    path = layout.trust(home)
    document = _object(path)
    if document is None:
        return Confirmations(machines=_known_machines(home), old_commands=_old_commands(home))
    rows = [row for row in _list(document.get("confirmed")) if isinstance(row, dict)]
    names = Confirmation._fields
    return Confirmations(
        confirmed=tuple(Confirmation(*(str(row.get(name, "")) for name in names)) for row in rows),
        folders=tuple(map(str, _list(document.get("folders")))),
        machines=tuple(map(str, _list(document.get("machines")))),
        old_commands=_old_commands(home),
    )


def is_trusted_folder(home: str, folder: str) -> bool:
    """Whether the user has confirmed this very folder of another user."""
    return os.path.realpath(folder) in read(home).folders


def to_json(stored: Confirmations) -> bytes:
    rows = [row._asdict() for row in stored.confirmed]
    text = {"v": 1, "confirmed": rows, "folders": list(stored.folders), "machines": list(stored.machines)}
    import json

    return json.dumps(text, indent=1).encode() + b"\n"


def _object(path: str) -> dict[str, object] | None:
    try:
        with open(path, encoding="utf-8") as source:
            document = json_text.loads(source.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        hint = "delete it; you are then asked again"
        raise StoreError(
            "the file with your confirmations cannot be read", where=path, answer=str(error), hint=hint
        ) from error
    return document if isinstance(document, dict) else {}


def _known_machines(home: str) -> tuple[str, ...]:
    """Names of the folders with a pinned key or a key of ours; not the one with the sockets of connections."""
    try:
        return tuple(sorted(name for name in os.listdir(layout.ssh(home)) if len(name) == 32))
    except OSError:
        return ()


def _old_commands(home: str) -> frozenset[str]:
    try:
        commands = _object(layout.old_trust(home))
    except StoreError:
        return frozenset()
    return frozenset(commands or ())


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
