"""The index over the run directories: derived, rebuilt at will, asked for nothing that a run does not say itself.

How it stays true without anybody telling it: the modification time of ``runs/`` changes with every run that comes or
goes, and a run that is not final is read again each time. One writer at a time under a file lock, and a rollback
journal, because SQLite before 3.51.3 can damage a WAL file that two processes write.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time

from holdfast import lifecycle
from holdfast.errors import StoreError, UsageError
from holdfast.store import history, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.model import Json
    from holdfast.store.home import Home

VERSION = 1
_RACY_NS = 100_000_000  # a folder changed this recently may change again under the same time stamp
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE runs (
  uid TEXT PRIMARY KEY, project_id TEXT, run_number INTEGER, run_id TEXT,
  created TEXT, status TEXT, final INTEGER, record TEXT
) WITHOUT ROWID;
CREATE INDEX runs_by_project ON runs (project_id, run_number);
CREATE INDEX runs_by_id ON runs (run_id);
CREATE INDEX runs_open ON runs (final) WHERE final = 0;
"""


class Index:
    """Answers about all runs of a store, fresh as of the moment it was opened."""

    def __init__(self, home: Home) -> None:
        self._home = home
        with home.lock("index"):
            try:
                self._db = _open(home.index_file)
                self._refresh()
            except sqlite3.DatabaseError:
                _discard(home.index_file)
                self._db = _open(home.index_file)
                self._refresh()

    def close(self) -> None:
        self._db.close()

    def of_project(self, project_id: str) -> list[Json]:
        """Newest first."""
        rows = self._db.execute("SELECT record FROM runs WHERE project_id = ? ORDER BY run_number DESC", (project_id,))
        return [json.loads(row[0]) for row in rows]

    def of_store(self) -> list[Json]:
        return [json.loads(row[0]) for row in self._db.execute("SELECT record FROM runs ORDER BY created DESC")]

    def record(self, uid: str) -> Json:
        row = self._db.execute("SELECT record FROM runs WHERE uid = ?", (uid,)).fetchone()
        found: Json = json.loads(row[0])
        return found

    def open_runs(self) -> list[str]:
        return [row[0] for row in self._db.execute("SELECT uid FROM runs WHERE final = 0")]

    def find(self, project_id: str, named: str) -> str:
        """The uid of what a person called ``last``, a number, a run id, or any unique beginning of one."""
        if named == "last":
            return self._last(project_id)
        if named.isdigit() and len(named) < 10:
            row = self._db.execute(
                "SELECT uid FROM runs WHERE project_id = ? AND run_number = ?", (project_id, int(named))
            ).fetchone()
            if row:
                return str(row[0])
        exact = self._db.execute("SELECT uid FROM runs WHERE run_id = ? OR uid = ?", (named, named)).fetchone()
        return str(exact[0]) if exact else self._by_beginning(named)

    def refresh(self, uids: Iterable[str] = ()) -> None:
        """Read these runs again, and whatever else has changed."""
        with self._home.lock("index"):
            self._ingest(uids)
            self._refresh()

    def _last(self, project_id: str) -> str:
        newest = "SELECT uid FROM runs WHERE project_id = ? ORDER BY run_number DESC LIMIT 1"
        row = self._db.execute(newest, (project_id,)).fetchone()
        row = row or self._db.execute("SELECT uid FROM runs ORDER BY created DESC LIMIT 1").fetchone()
        if row is None:
            raise UsageError(
                "there are no runs yet", where=self._home.path, hint="start one: holdfast submit -c local train.py"
            )
        return str(row[0])

    def _by_beginning(self, named: str) -> str:
        pattern = named.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        query = "SELECT uid, run_id FROM runs WHERE run_id LIKE ? ESCAPE '\\' OR uid LIKE ? ESCAPE '\\' LIMIT 6"
        rows = self._db.execute(query, (pattern, pattern)).fetchall() if named else []
        if len(rows) == 1:
            return str(rows[0][0])
        if rows:
            raise UsageError(
                f"{named!r} is the beginning of several runs", hint="one of: " + ", ".join(row[1] for row in rows)
            )
        raise UsageError(
            f"there is no run {named!r}", where=self._home.path, hint="holdfast history list shows what there is"
        )

    def _refresh(self) -> None:
        before = self._meta("runs_mtime")
        try:
            mtime = os.stat(self._home.runs).st_mtime_ns
        except FileNotFoundError:
            mtime = 0
        if str(mtime) != before:
            known = {row[0] for row in self._db.execute("SELECT uid FROM runs")}
            there = set(runs.uids(self._home))
            self._db.executemany("DELETE FROM runs WHERE uid = ?", ((uid,) for uid in known - there))
            self._ingest(there - known)
        self._ingest(self.open_runs())
        settled = mtime if time.time_ns() - mtime > _RACY_NS else 0
        if str(settled) != before:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('runs_mtime', ?)", (str(settled),))
            self._db.commit()

    def _ingest(self, uids: Iterable[str]) -> None:
        for uid in uids:
            run = runs.read(self._home, uid)
            found = history.record(run)
            final = found["status"] in lifecycle.FINAL or bool(run.problem)
            text = json.dumps(found)
            row = (
                uid,
                found["experiment_id"],
                found["run_number"],
                found["run_id"],
                found["created_utc"],
                found["status"],
                final,
                text,
            )
            self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._db.commit()

    def _meta(self, key: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""


def rebuild(home: Home) -> int:
    """Throw the index away and read every run again; returns how many there are."""
    with home.lock("index"):
        _discard(home.index_file)
    index = Index(home)
    try:
        return len(index.of_store())
    finally:
        index.close()


def _open(path: str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path)
    except sqlite3.OperationalError as error:
        raise StoreError(
            "the index cannot be opened", where=path, answer=str(error), hint="is the folder writable?"
        ) from error
    db.execute("PRAGMA synchronous = OFF")  # derived: a power cut costs a rebuild, not a run
    if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        db.close()
        _discard(path)
        db = sqlite3.connect(path)
        db.executescript(_SCHEMA + f"PRAGMA user_version = {VERSION};")
    return db


def _discard(path: str) -> None:
    for name in (path, f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue
