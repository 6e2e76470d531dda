"""The index over the run directories: derived, rebuilt at will, asked for nothing that a run does not say itself.

How it stays true without anybody telling it: the modification time of ``runs/`` changes with every run that comes or
goes, and a run that is not final is read again each time. One writer at a time under a file lock, and a rollback
journal, because SQLite before 3.51.3 can damage a WAL file that two processes write. SQLite does not notice a flipped
bit, so the file has a checksum beside it. Where the index cannot be kept (a full or read-only disk), it is made in
memory for the one command that asks.
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
    from collections.abc import Callable, Iterable

    from holdfast.model import Json
    from holdfast.store.home import Home

VERSION = 2
_RACY_NS = 100_000_000  # a folder changed this recently may change again under the same time stamp
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE runs (
  uid TEXT PRIMARY KEY, project_id TEXT, run_number INTEGER, run_id TEXT,
  stamp INTEGER, status TEXT, final INTEGER, record TEXT
) WITHOUT ROWID;
CREATE INDEX runs_by_project ON runs (project_id, run_number);
CREATE INDEX runs_by_id ON runs (run_id);
CREATE INDEX runs_open ON runs (final) WHERE final = 0;
"""


class Index:
    """Answers about all runs of a store, fresh as of the moment it was opened."""

    def __init__(self, home: Home, *, keep: bool = True) -> None:
        """With ``keep`` false it is read from the run directories alone, and nothing is written."""
        self._home = home
        self.kept = keep
        self._db = _connect(":memory:")
        if keep:
            self._in_file(self._open_file)
        else:
            self._fill_memory()

    def close(self) -> None:
        self._db.close()

    def of_project(self, project_id: str) -> list[Json]:
        """Newest first."""
        rows = self._db.execute("SELECT record FROM runs WHERE project_id = ? ORDER BY run_number DESC", (project_id,))
        return [json.loads(row[0]) for row in rows]

    def of_store(self) -> list[Json]:
        return [json.loads(row[0]) for row in self._db.execute("SELECT record FROM runs ORDER BY stamp DESC")]

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
            return self._numbered(project_id, int(named))
        exact = self._db.execute("SELECT uid FROM runs WHERE run_id = ? OR uid = ?", (named, named)).fetchone()
        return str(exact[0]) if exact else self._by_beginning(named)

    def refresh(self, uids: Iterable[str] = ()) -> None:
        """Read these runs again, and whatever else has changed."""
        changed = list(uids)
        if self.kept:
            self._in_file(lambda: self._ingest(changed))
        else:
            self._ingest(changed)
            self._refresh()

    def _in_file(self, begin: Callable[[], None]) -> None:
        """Work on the file while nobody else does; where the disk does not let us, go on in memory."""
        try:
            with self._home.lock("index"):
                begin()
                self._refresh()
                if self._db.total_changes:
                    _seal(self._home.index_file)
        except (OSError, sqlite3.Error):
            self.kept = False
            self._db.close()
            self._db = _connect(":memory:")
            self._fill_memory()

    def _open_file(self) -> None:
        path = self._home.index_file
        if not _is_sound(path):
            _discard(path)
        self._db.close()
        self._db = _open(path)

    def _fill_memory(self) -> None:
        self._db.executescript(_SCHEMA)
        self._refresh()

    def _numbered(self, project_id: str, number: int) -> str:
        """A number means that number and nothing else: taken for the beginning of a uid, it would name any run."""
        query = "SELECT uid FROM runs WHERE project_id = ? AND run_number = ?"
        row = self._db.execute(query, (project_id, number)).fetchone()
        if row is None:
            hint = "holdfast history list shows what there is"
            raise UsageError(f"this project has no run {number}", where=self._home.path, hint=hint)
        return str(row[0])

    def _last(self, project_id: str) -> str:
        newest = "SELECT uid FROM runs WHERE project_id = ? ORDER BY run_number DESC LIMIT 1"
        row = self._db.execute(newest, (project_id,)).fetchone()
        row = row or self._db.execute("SELECT uid FROM runs ORDER BY stamp DESC LIMIT 1").fetchone()
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
            text = json.dumps(found)
            row = (
                uid,
                found["experiment_id"],
                found["run_number"],
                found["run_id"],
                _stamp(str(found["run_id"])),
                found["status"],
                found["status"] in lifecycle.FINAL,
                text,
            )
            self._db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._db.commit()

    def _meta(self, key: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""


def problems(home: Home) -> list[str]:
    """What is wrong with the file: other bytes than its last writer left, or other answers than the runs give."""
    try:
        with home.lock("index"):
            if not os.path.exists(home.index_file):
                return []
            if not _is_sound(home.index_file):
                return ["it is not as it was last written"]
    except OSError:
        return []  # where it cannot be locked, nobody uses it
    kept, fresh = Index(home), Index(home, keep=False)
    try:
        said, true = ({row["uid"]: row for row in index.of_store() if row["end_time_utc"]} for index in (kept, fresh))
    finally:
        kept.close()
        fresh.close()
    return [f"it is wrong about run {uid}" for uid in sorted(map(str, true)) if said.get(uid, true[uid]) != true[uid]]


def rebuild(home: Home) -> int:
    """Throw the index away and read every run again; returns how many there are."""
    with home.lock("index"):
        _discard(home.index_file)
    index = Index(home)
    try:
        if not index.kept:
            hint = "holdfast du shows what takes room; other commands work without an index, only slower"
            raise StoreError("the index could not be written", where=home.index_file, hint=hint)
        return len(index.of_store())
    finally:
        index.close()


def _open(path: str) -> sqlite3.Connection:
    db = _connect(path)
    if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        db.close()
        _discard(path)
        db = _connect(path)
        db.executescript(_SCHEMA + f"PRAGMA user_version = {VERSION};")
    return db


def _connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")  # derived: a power cut costs a rebuild, not a run
    return db


def _is_sound(path: str) -> bool:
    """Whether the index is as its last writer left it. A journal means that a writer was killed."""
    try:
        with open(f"{path}.sum", encoding="ascii") as source:
            return source.read() == _sum(path) and not os.path.exists(f"{path}-journal")
    except (FileNotFoundError, ValueError):
        return False


def _seal(path: str) -> None:
    with open(f"{path}.sum", "w", encoding="ascii") as target:
        target.write(_sum(path))


def _sum(path: str) -> str:
    from binascii import crc32

    found = 0
    with open(path, "rb") as source:
        while block := source.read(1024 * 1024):
            found = crc32(block, found)
    return f"{found:08x}\n"


def _stamp(run_id: str) -> int:
    """The milliseconds in a run id, which only ever grow: the order in which runs began, whatever the clock did."""
    digits = run_id.rpartition("_")[2]
    return int(digits) if digits.isdigit() and len(digits) < 19 else 0


def _discard(path: str) -> None:
    for name in (path, f"{path}.sum", f"{path}-journal", f"{path}-wal", f"{path}-shm"):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue
