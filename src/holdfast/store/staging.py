"""Staging of runs from elsewhere: completed in a temporary folder of the store, then renamed."""

from __future__ import annotations

import os

from holdfast.model import Identity, Project
from holdfast.runner.machine import node
from holdfast.runner.store import layout
from holdfast.runner.store.files import fsync_path, sync_file_system, temporary_beside, write_synced
from holdfast.runner.store.jsonl import read_lines, sealed
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import request_file, run_numbers
from holdfast.store.home import Home
from holdfast.store.index.index import Index
from holdfast.store.locks import Lock, is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

_OWNER = "owner"


def is_abandoned(path: str) -> bool:
    """Whether the import that made this folder has ended; never true of one that another node made."""
    marks = read_lines(os.fsencode(os.path.join(path, f"{_OWNER}.jsonl")))
    return bool(marks) and node.is_this(marks[0]) and not is_held(os.path.join(path, _OWNER))


class Staging:
    """``with Staging(home) as stage:`` what was not published is gone at the end; a killed one is swept by prune."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.path = temporary_beside(os.path.join(home.path, f"import-{os.getpid()}"))
        self._staged = Home(self.path, "")
        self._owner = Lock(os.path.join(self.path, _OWNER))

    def __enter__(self) -> Staging:
        os.makedirs(self.path, 0o700)
        self._owner.try_hold()
        try:
            with open(os.path.join(self.path, f"{_OWNER}.jsonl"), "wb") as mark:  # after the lock, which it vouches for
                mark.write(node.encoded())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._owner.release()
        remove_tree(os.fsencode(self.path))

    def run(self, uid: str, *names: str) -> str:
        return self._staged.run(uid, *names)

    def settle(self) -> None:
        """Everything that was written so far is on disk."""
        top = os.fsencode(self.path)
        if sync_file_system(top):
            return
        for folder, _, names in os.walk(top):
            for name in names:
                fsync_path(os.path.join(folder, name))
            fsync_path(folder)

    def publish(self, uid: str, run_id: str, request: Json, at_least: int = 1) -> int | None:
        """Give the run its number and its place; None where the store has it already. ``settle`` comes first."""
        with self._home.lock("gather"):
            folder = self._home.run(uid)
            if os.path.isdir(folder):
                return None
            project = Project("", str(request["project_id"]), str(request["project"]))
            identity = Identity(uid, run_id, run_numbers.claim(self._home, project, at_least).run_number)
            write_synced(layout.request(self.run(uid)), sealed({**request, **identity._asdict()}))
            request_file.note_number(self.run(uid), identity.run_number)
            fsync_path(self.run(uid))
            os.makedirs(self._home.runs, 0o700, exist_ok=True)
            os.rename(self.run(uid), folder)
            fsync_path(self._home.runs)
            run_numbers.note_created(self._home)
            return identity.run_number


def taken_ids(home: Home) -> set[str]:
    """The ids of all runs of the store."""
    index = Index(home)
    try:
        return {str(row[0]) for row in index.db.execute("SELECT run_id FROM runs")}
    finally:
        index.close()


def free_id(run_id: str, taken: set[str]) -> str:
    """The same id, or with the next number at its end that no run has."""
    name, _, digits = run_id.rpartition("_")
    stamp = int(digits)
    while f"{name}_{stamp}" in taken:
        stamp += 1
    return f"{name}_{stamp}"
