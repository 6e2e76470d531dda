"""The store of this user: its folder, its id, and every path in it."""

from __future__ import annotations

import errno
import os

from holdfast.errors import StoreError
from holdfast.location import HINT, location
from holdfast.record import Record
from holdfast.runner import json_text, untrusted
from holdfast.runner.store import layout
from holdfast.runner.store.files import write_whole
from holdfast.store.locks import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.runner.store.layout import Place

LAYOUT = 1
__all__ = ["Home", "Named", "location", "open_home"]


class Home(Record):
    """Every path below the store that is made from an id or a name passes ``untrusted`` here: none leads out of it."""

    path: str
    id: str

    @property
    def runs(self) -> str:
        return layout.runs(self.path)

    @property
    def objects(self) -> str:
        return layout.objects(self.path)

    @property
    def index_file(self) -> str:
        return layout.index(self.path)

    @property
    def saved(self) -> str:
        """States of projects that a restore replaced, by the name of their tree."""
        return layout.saved(self.path)

    @property
    def trash(self) -> str:
        """Deleted runs, for as long as ``keepTrash`` says."""
        return layout.trash(self.path)

    @property
    def settings(self) -> str:
        return layout.settings(self.path)

    def run(self, uid: str, *names: str) -> str:
        below = (untrusted.relative(name) for name in names)
        return os.path.join(layout.run(self.path, untrusted.component(uid)), *below)

    def stat_cache(self, project_id: str) -> str:
        untrusted.component(f"stat2-{project_id}")
        return layout.stat_cache(self.path, project_id)

    def counter(self, name: str) -> str:
        return self._file(layout.numbers, name)

    def lock(self, name: str) -> Lock:
        return Lock(self.lock_file(name))

    def lock_file(self, name: str) -> str:
        return self._file(layout.locks, name)

    def shipped(self, store_id: str, project: str) -> str:
        """The note of the last tree that another store is known to hold."""
        return self._file(layout.shipped, f"{store_id}-{project}")

    def silent(self, target: str) -> str:
        """The note of when a target was first found not to answer."""
        return self._file(layout.silent, target)

    def environment(self, key: str) -> str:
        return self._file(layout.environments, key)

    def solved(self, key: str) -> str:
        return self._file(layout.solved, f"{key}.json")

    def shims(self, project_id: str) -> str:
        return self._file(layout.shims, project_id)

    def _file(self, folder: Place, name: str) -> str:
        return os.path.join(folder(self.path), untrusted.component(name))


def open_home(*, create: bool = True) -> Home:
    """The store, made on first use unless create is False (then a store that is not there has an empty id)."""
    path = location()
    try:
        return Home(path, _identity(path, create))
    except OSError as error:
        where = os.fsdecode(error.filename or path)
        hint = f"free disk space, or {HINT}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else HINT
        raise StoreError("the store cannot be opened", where=where, answer=str(error.strerror), hint=hint) from error


def _identity(path: str, create: bool) -> str:
    file = layout.identity(path)
    try:
        with open(file, encoding="utf-8") as source:
            document = json_text.loads(source.read())
        version, identity = document["layout"], untrusted.hexadecimal(document["id"], 32)
    except FileNotFoundError:
        return _make(path, file) if create else ""
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what, hint = "the store's identity file is damaged", "restore it from a backup"
        raise StoreError(what, where=file, answer=f"{type(error).__name__}: {error}", hint=hint) from error
    if version != LAYOUT:
        what = f"the store has layout {ascii(version)[:40]}, this Holdfast supports {LAYOUT}"
        raise StoreError(what, where=file, hint="use a newer Holdfast")
    return identity


def _make(path: str, file: str) -> str:
    os.makedirs(path, 0o700, exist_ok=True)
    with Lock(layout.lock(path, "store")):
        if not os.path.exists(file):
            identity = {"id": os.urandom(16).hex(), "layout": LAYOUT}
            write_whole(file, json_text.dumps(identity).encode() + b"\n")
    return _identity(path, create=False)


class Named:
    """``with Named(path):`` an error of a read, write or sync in there, which knows no name, says which file it was."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = self._path
