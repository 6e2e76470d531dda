"""The SQLite index over the run folders: derived from them and rebuilt when needed.

How it stays current: the modification time of ``runs/`` changes when a run is added or removed, and a run that is not
final is read again each time, except for a damaged one whose files are unchanged. One writer at a time under a file
lock, and a rollback journal, because SQLite before 3.51.3 can damage a WAL file that two processes write. Where the
index cannot be kept (a full or read-only disk, a stopped process that holds its lock), it is made in memory for the one
command that asks.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from binascii import crc32

from holdfast import lifecycle
from holdfast.errors import LockedError, StoreError, UsageError
from holdfast.runner import untrusted
from holdfast.store import history_record, runs
from holdfast.store.index import files, rows
from holdfast.store.where.fields import KEY_SHIFT, column, storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.index.rows import Cell, Row, Stored

_AT_ONCE = 5000  # values
_MUCH = 100_000  # rows
_CHECKED = 2000  # ended runs of which a list looks whether their run.json has changed
_RACY_NS = 100_000_000  # a folder changed this recently may change again under the same time stamp
_RUN_COLUMNS = (*(column(name) for name in rows.COLUMNS), "final", "mark", "place", "length", "sum")
_PUT_RUN = f"INSERT OR REPLACE INTO runs (id, {', '.join(_RUN_COLUMNS)}) VALUES (?{', ?' * len(_RUN_COLUMNS)})"
_PUT_VALUE = "INSERT OR REPLACE INTO vals VALUES (?, ?, ?, ?, ?)"
_OF_PROJECT = "(? IS NULL OR experiment_id = ?)"
WHERE_IT_IS = "uid, place, length, sum"


class Index:
    """Answers about all runs of a store, fresh as of the moment it was opened."""

    def __init__(self, home: Home, *, keep: bool = True) -> None:
        """With ``keep`` false it is read from the run directories alone, and nothing is written.

        Nor is anything written where there is no store.
        """
        self._home = home
        self.kept = keep = keep and bool(home.id)
        self.locked_by = ""  # the process that keeps us from the file
        self._fresh: dict[str, Json] = {}  # records of runs that go on
        self._numbers: dict[tuple[str, str], int] = {}
        self._waiting: list[tuple[Cell, ...]] = []
        self._changes = 0
        self.db = files.connect(":memory:")
        self._records = files.Records(None)
        if keep:
            self._in_file(self._open_file)
        else:
            self._fill_memory()

    def close(self) -> None:
        self.db.close()
        self._records.close()

    def of_project(self, project_id: str) -> list[Json]:
        """Newest first."""
        query = f"SELECT {WHERE_IT_IS} FROM runs WHERE experiment_id = ? ORDER BY run_number DESC"
        return [self.record_at(*row) for row in self.db.execute(query, (project_id,))]

    def recent(self, project_id: str, most: int) -> list[Json]:
        """The newest runs of a project."""
        query = f"SELECT {WHERE_IT_IS} FROM runs WHERE experiment_id = ? ORDER BY run_number DESC LIMIT ?"
        return [self.record_at(*row) for row in self.db.execute(query, (project_id, most))]

    def of_store(self) -> list[Json]:
        return [self.record_at(*row) for row in self.db.execute(f"SELECT {WHERE_IT_IS} FROM runs ORDER BY stamp DESC")]

    def record(self, uid: str) -> Json:
        return self.record_at(*self.db.execute(f"SELECT {WHERE_IT_IS} FROM runs WHERE uid = ?", (uid,)).fetchone())

    def open_runs(self, project_id: str | None = None) -> list[str]:
        """Runs that have not ended, of all projects or of one."""
        query = "SELECT uid FROM runs WHERE final = 0 AND (? IS NULL OR experiment_id = ?)"
        return [row[0] for row in self.db.execute(query, (project_id, project_id))]

    def damaged(self, most: int, project_id: str | None = None) -> list[str]:
        """What is wrong with runs (of that project, or of none that is known) whose files cannot be understood."""
        query = "SELECT reason FROM runs WHERE final = 0 AND status = 'Damaged'"
        query += " AND (? IS NULL OR experiment_id IS NULL OR experiment_id = ?) ORDER BY uid LIMIT ?"
        return [str(row[0]) for row in self.db.execute(query, (project_id, project_id, most))]

    def count(self) -> int:
        return int(self.db.execute("SELECT count(*) FROM runs").fetchone()[0])

    def highest(self, project_id: str, most: int, latest: int) -> tuple[int, int]:
        """The greatest run number of a project below ``most``, and of all runs the latest stamp before ``latest``."""
        numbers = "SELECT max(run_number) FROM runs WHERE experiment_id = ? AND run_number < ?"
        stamps = "SELECT max(stamp) FROM runs WHERE stamp < ?"
        number = self.db.execute(numbers, (project_id, most)).fetchone()[0]
        return int(number or 0), int(self.db.execute(stamps, (latest,)).fetchone()[0] or 0)

    def number(self, kind: str, name: str) -> int | None:
        """The number under which values of this name are kept."""
        row = self.db.execute("SELECT id FROM names WHERE kind = ? AND name = ?", (kind, storable(name))).fetchone()
        return row[0] if row else None

    def known(self) -> list[str]:
        """All names of parameters and metrics."""
        return [row[0] for row in self.db.execute("SELECT DISTINCT name FROM names WHERE kind != 'tag' LIMIT 5000")]

    def has_damaged_records(self) -> bool:
        stored = self.db.execute("SELECT place, length, sum FROM runs WHERE place IS NOT NULL")
        return any(self._records.read(*row) is None for row in stored)

    def find(self, project_id: str, named: str, *, any_project: bool = True) -> str:
        """The uid of what a person called ``last``, a number, a run id, a name, or any unique beginning of an id.

        With ``any_project`` false, runs of other projects are not found by any name.
        """
        named = storable(named)
        only = None if any_project else project_id
        if named == "last":
            return self._last(project_id)
        number = untrusted.whole_number(named, 9)
        if number is not None:
            return self._numbered(project_id, number)
        return self._exact(named, only) or self._named(named, project_id) or self._by_beginning(named, only)

    def refresh(self, uids: Iterable[str] = ()) -> None:
        """Read these runs again, and whatever else has changed."""
        changed = list(uids)
        if self.kept:
            self._in_file(lambda: self._ingest(changed))
        else:
            self._ingest(changed)
            self._refresh()

    def _in_file(self, begin: Callable[[], None]) -> None:
        """Work on the file under its lock; where the disk refuses, continue in memory."""
        try:
            with self._home.lock("index"):
                begin()
                self._refresh()
                changes = self.db.total_changes - self._changes
                if changes:
                    files.seal(self._home.index_file, whole=changes > _MUCH)
                self._changes += changes
        except (OSError, sqlite3.Error, LockedError) as error:
            self.locked_by = error.by if isinstance(error, LockedError) else ""
            self.kept = False
            self.close()
            self.db = files.connect(":memory:")
            self._records = files.Records(None)
            self._fill_memory()

    def _open_file(self) -> None:
        path = self._home.index_file
        if not files.is_sound(path):
            files.discard(path)
        self.close()
        self.db = files.connect_or_make(path)
        self._records = files.Records(files.records_path(path))

    def _fill_memory(self) -> None:
        self._numbers = {}
        self._waiting = []
        self.db.executescript(files.SCHEMA)
        self._refresh()

    def record_at(self, uid: str, offset: int | None, length: int, checksum: int) -> Json:
        if uid in self._fresh:
            return self._fresh[uid]
        data = self._read_stored(offset, length, checksum)
        if data is None:  # another client saw it end meanwhile, or the file is damaged: the run itself knows
            return rows.listed(history_record.record(runs.read(self._home, uid)))
        record: Json = json.loads(data)
        return record

    def _is_known_damage(self, uid: str) -> bool:
        """Whether the run was found damaged and its files are still the same: parsing them may take long."""
        query = "SELECT mark, place, length, sum FROM runs WHERE uid = ? AND final = 0 AND status = 'Damaged'"
        known = self.db.execute(query, (uid,)).fetchone()
        if known is None or known[0] != rows.damage_mark(self._home, uid):
            return False
        return self._read_stored(*known[1:]) is not None

    def _read_stored(self, offset: int | None, length: int, checksum: int) -> bytes | None:
        return None if offset is None else self._records.read(offset, length, checksum)

    def _numbered(self, project_id: str, number: int) -> str:
        """A number means that number and nothing else: taken for the beginning of a uid, it would name any run."""
        query = "SELECT uid FROM runs WHERE experiment_id = ? AND run_number = ?"
        uids = [str(row[0]) for row in self.db.execute(query, (project_id, number))]
        if not uids:
            hint = "holdfast runs lists the runs of this project"
            raise UsageError(f"this project has no run {number}", where=self._home.path, hint=hint)
        if len(uids) > 1:
            raise UsageError(f"several runs have the number {number}", hint="one of: " + ", ".join(sorted(uids)))
        return uids[0]

    def _last(self, project_id: str) -> str:
        """The newest run of this project; a run of another project is never meant."""
        newest = "SELECT uid FROM runs WHERE experiment_id = ? ORDER BY run_number DESC LIMIT 1"
        row = self.db.execute(newest, (project_id,)).fetchone()
        if row is None:
            hint = "start one: holdfast submit -c local train.py; holdfast runs -A lists the runs of all projects"
            raise UsageError("this project has no runs", where=self._home.path, hint=hint)
        return str(row[0])

    def _exact(self, named: str, only: str | None) -> str:
        """The run of this uid or run id; empty where there is none."""
        query = f"SELECT uid, uid = ? FROM runs WHERE (run_id = ? OR uid = ?) AND {_OF_PROJECT} ORDER BY uid"
        matches = self.db.execute(query, (named, named, named, only, only)).fetchall()
        uids = [str(row[0]) for row in matches if row[1]] or [str(row[0]) for row in matches]
        if len(uids) > 1:
            raise UsageError(f"several runs have the id {named!r}", hint="one of: " + ", ".join(uids))
        return uids[0] if uids else ""

    def _named(self, named: str, project_id: str) -> str:
        """The run of this project with this name; empty where there is none."""
        query = "SELECT uid, run_number FROM runs WHERE experiment_id = ? AND name = ? ORDER BY run_number"
        matches = self.db.execute(query, (project_id, named)).fetchall()
        if len(matches) > 1:
            numbers = ", ".join(str(row[1]) for row in matches[-6:])
            raise UsageError(f"several runs have the name {named!r}", hint=f"name one by its number: {numbers}")
        return str(matches[0][0]) if matches else ""

    def _by_beginning(self, named: str, only: str | None) -> str:
        pattern = named.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        either = "(run_id LIKE ? ESCAPE '\\' OR uid LIKE ? ESCAPE '\\')"
        query = f"SELECT uid, run_id FROM runs WHERE {either} AND {_OF_PROJECT} LIMIT 6"
        matches = self.db.execute(query, (pattern, pattern, only, only)).fetchall() if named else []
        if len(matches) == 1:
            return str(matches[0][0])
        if matches:
            raise UsageError(
                f"{named!r} is a prefix of several runs", hint="one of: " + ", ".join(row[1] for row in matches)
            )
        raise UsageError(
            f"no such run: {named!r}", where=self._home.path, hint="holdfast runs lists the runs of this project"
        )

    def _refresh(self) -> None:
        before = self._meta("runs_mtime")
        new: set[str] = set()
        try:
            mtime = os.stat(self._home.runs).st_mtime_ns
        except FileNotFoundError:
            mtime = 0
        if str(mtime) != before:
            # One text of all takes two thirds of the time of a row for each.
            text = self.db.execute("SELECT group_concat(uid) FROM runs").fetchone()[0]
            known = text.split(",") if text else []
            there = set(os.listdir(self._home.runs)) if mtime else set()
            unknown = there.difference(known)
            for uid in set(known) - there if len(known) + len(unknown) != len(there) else ():
                self._forget(uid)
            new = {name for name in unknown if runs.is_uid(name)}
            self._ingest(new)
        self._ingest(uid for uid in self.open_runs() if uid not in new)
        settled = mtime if time.time_ns() - mtime > _RACY_NS else 0
        if str(settled) != before:
            self.db.execute("INSERT OR REPLACE INTO meta VALUES ('runs_mtime', ?)", (str(settled),))
            self.db.commit()

    def _ingest(self, uids: Iterable[str]) -> None:
        for row in rows.read_all(self._home, [uid for uid in uids if not self._is_known_damage(uid)]):
            self._put(row)
        self._put_values()
        self._records.flush()
        self.db.commit()

    def _put(self, row: Row) -> None:
        """A running run is read again each time: its record is not stored, and its row only if it differs."""
        uid, final, columns, text, values, record, is_known_damage = row
        is_stored = final or is_known_damage
        if is_stored:
            mark = rows.request_mark(self._home.runs, uid) if final else rows.damage_mark(self._home, uid)
        else:
            mark = crc32(repr((columns, values)).encode("utf-8", "replace"))
        self._fresh.pop(uid, None)
        if not is_stored:
            self._fresh[uid] = json.loads(record)
        known = self.db.execute("SELECT id, final, mark, place, length, sum FROM runs WHERE uid = ?", (uid,)).fetchone()
        if known and known[1:3] == (final, mark) and (not is_stored or self._read_stored(*known[3:]) == record):
            return
        location = self._records.append(record) if is_stored else (None, 0, 0)
        number = known[0] if known else None
        number = self.db.execute(_PUT_RUN, (number, *columns, final, mark, *location)).lastrowid or 0
        if known:
            self._drop_values(number)
        self.db.execute("INSERT OR REPLACE INTO words VALUES (?, ?)", (number, text))
        self._waiting += [(self._key(value, number), *value[2:]) for value in values]
        if len(self._waiting) > _AT_ONCE:
            self._put_values()

    def read_changed(self, project_id: str | None = None) -> None:
        """Read those ended runs again whose run.json has changed since: it may have been cut. The newest ones only."""
        newest = "final = 1 ORDER BY stamp DESC LIMIT ?"
        if project_id is not None:  # by an index
            newest = "experiment_id = ? AND final = 1 ORDER BY run_number DESC LIMIT ?"
        query = f"SELECT uid, mark FROM runs WHERE {newest}"
        stored = self.db.execute(query, (_CHECKED,) if project_id is None else (project_id, _CHECKED)).fetchall()
        folder = self._home.runs
        changed = [uid for uid, mark in stored if mark != rows.request_mark(folder, uid)]
        if changed:
            self.refresh(changed)

    def _put_values(self) -> None:
        self.db.executemany(_PUT_VALUE, self._waiting)
        self._waiting.clear()

    def _key(self, value: Stored, run: int) -> int:
        named = value[:2]
        number = self._numbers.get(named)
        if number is None:
            number = self.number(*named)
            if number is None:
                number = self.db.execute("INSERT INTO names VALUES (NULL, ?, ?)", named).lastrowid or 0
            self._numbers[named] = number
        return (number << KEY_SHIFT) + run

    def _forget(self, uid: str) -> None:
        self._fresh.pop(uid, None)
        number = self.db.execute("SELECT id FROM runs WHERE uid = ?", (uid,)).fetchone()[0]
        self._drop_values(number)
        self.db.execute("DELETE FROM words WHERE run = ?", (number,))
        self.db.execute("DELETE FROM runs WHERE id = ?", (number,))

    def _drop_values(self, run: int) -> None:
        self.db.execute("DELETE FROM vals WHERE key IN (SELECT (id << ?) + ? FROM names)", (KEY_SHIFT, run))

    def _meta(self, key: str) -> str:
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else ""


def problems(home: Home) -> list[str]:
    """What is wrong with the files: other bytes than their last writer left, or other answers than the runs give."""
    if not home.id:
        return []  # there is no store
    try:
        with home.lock("index"):
            if not os.path.exists(home.index_file):
                return []
            if complaint := files.complaint(home.index_file):
                return [complaint]
    except LockedError as error:
        return [f"it could not be read: {error.by} holds its lock"]
    except OSError:
        return []  # where it cannot be locked, it is not used
    kept, fresh = Index(home), Index(home, keep=False)
    try:
        if kept.has_damaged_records():
            return ["records in it are damaged"]
        stored, true = ({str(row["uid"]): row for row in index.of_store()} for index in (kept, fresh))
    finally:
        kept.close()
        fresh.close()
    return [f"it has wrong data for run {uid}" for uid in sorted(true) if _differ(stored.get(uid), true[uid])]


def _differ(stored: Json | None, true: Json) -> bool:
    """Whether the index differs for an ended run. A running run may have changed in between."""
    return stored is not None and stored["status"] in lifecycle.FINAL and stored != true


def rebuild(home: Home) -> int:
    """Throw the index away and read every run again; returns how many there are."""
    with home.lock("index"):
        files.discard(home.index_file)
    index = Index(home)
    try:
        if not index.kept:
            hint = "holdfast du shows disk usage; other commands work without an index, but slower"
            raise StoreError("the index could not be written", where=home.index_file, hint=hint)
        return index.count()
    finally:
        index.close()
