"""Reads an MLflow store without MLflow: a folder of files (mlruns/) or a database (mlflow.db).

Both are read as they lie, and nothing is written. What they say is data: artifacts are taken from the run's own folder
only, links out of the store are not followed, and a database is asked only for rows of plain tables.
"""

from __future__ import annotations

import math
import os
from urllib.parse import unquote, urlsplit

from holdfast.errors import UsageError
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.decoding import readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from typing import TypeAlias

    from holdfast.amlconfig.nodes import Scalar
    from holdfast.model import Json

    # time in milliseconds, value, step
    Point: TypeAlias = tuple[int, float, int]

_STATES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_LARGEST_FILE, _LARGEST_TEXT, _LARGEST_META = 64 << 20, 1 << 20, 1 << 16
_TABLES = ("experiments", "runs", "params", "tags", "metrics")
_BESIDE_DATABASE = ("-journal", "-wal", "-shm")
_LATEST = 1 << 52  # of a time in milliseconds
_GREATEST = 1.7976931348623157e308  # what MLflow writes into a database in the place of infinity
_HINT = "the folder mlruns, or the file mlflow.db"


_PARTS = ("artifacts", "metrics", "params", "tags")


class MlflowRun(Record):
    """One run. Times are milliseconds since 1970; ``artifacts`` is a folder, empty where there is none here.

    ``outside`` are its folders that are not read because they lead out of the store.
    """

    uid: str
    experiment: str
    name: str
    user: str
    status: str
    start: int
    end: int
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, list[Point]]
    artifacts: str
    outside: tuple[str, ...] = ()


def read(path: str) -> Iterator[MlflowRun]:
    """Every run that was not deleted there, the oldest first."""
    database = path if os.path.isfile(path) else os.path.join(path, "mlflow.db")
    if os.path.isfile(database):
        return _of_database(database)
    for folder in (path, os.path.join(path, "mlruns")):
        if any(_experiments(folder)):
            return _of_folder(folder)
    raise UsageError("this is not an MLflow store", where=path, hint=_HINT)


def _of_folder(top: str) -> Iterator[MlflowRun]:
    candidates = []
    for directory, experiment in _experiments(top):
        for name in _listed(directory):
            folder = os.path.join(directory, name)
            meta = _meta(top, folder)
            if meta.get("lifecycle_stage") == "active" and (meta.get("run_id") or meta.get("run_uuid")):
                candidates.append((_whole(meta.get("start_time")), folder, meta, experiment))
    for _, folder, meta, experiment in sorted(candidates, key=lambda row: row[:2]):
        yield _of_files(top, folder, meta, experiment)


def _experiments(top: str) -> Iterator[tuple[str, str]]:
    for name in _listed(top):
        folder = os.path.join(top, name)
        meta = _meta(top, folder)
        if "experiment_id" in meta and not name.startswith(".") and meta.get("lifecycle_stage") == "active":
            yield folder, str(meta.get("name") or name)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _of_files(top: str, folder: str, meta: Json, experiment: str) -> MlflowRun:
    status = meta.get("status")
    metrics = {
        name: sorted(filter(None, map(_point, text.splitlines())), key=lambda point: point[0])
        for name, text in _texts(top, os.path.join(folder, "metrics"), _LARGEST_FILE)
    }
    artifacts = os.path.join(folder, "artifacts")
    return MlflowRun(
        *(str(meta.get("run_id") or meta.get("run_uuid")), experiment),
        name=str(meta.get("run_name") or ""),
        user=str(meta.get("user_id") or ""),
        status=_STATES.get(status, "") if isinstance(status, int) else str(status),
        start=_whole(meta.get("start_time")),
        end=_whole(meta.get("end_time")),
        params=dict(_texts(top, os.path.join(folder, "params"), _LARGEST_TEXT)),
        tags=dict(_texts(top, os.path.join(folder, "tags"), _LARGEST_TEXT)),
        metrics={name: points for name, points in metrics.items() if points},
        artifacts=artifacts if os.path.isdir(artifacts) and _is_inside(artifacts, top) else "",
        outside=tuple(name for name in _PARTS if not _is_inside(os.path.join(folder, name), top)),
    )


def _texts(top: str, folder: str, limit: int) -> Iterator[tuple[str, str]]:
    """The files below a folder, by their path in it: so MLflow keeps a name with slashes."""
    for inner, _, names in os.walk(folder) if _is_inside(folder, top) else ():
        for name in sorted(names):
            path = os.path.join(inner, name)
            text = _text(top, path, limit)
            if text is not None:
                yield os.path.relpath(path, folder).replace(os.sep, "/"), text


def _point(line: str) -> Point | None:
    fields = line.split()
    try:
        return int(fields[0]), float(fields[1]), int(fields[2]) if len(fields) > 2 else 0
    except (ValueError, IndexError):
        return None


def _meta(top: str, folder: str) -> Json:
    """The plain values of a meta.yaml. Its reader builds nothing from anchors and aliases, of which MLflow has none."""
    from holdfast.amlconfig.full import RefusedError, read_full
    from holdfast.amlconfig.nodes import Mapping, Scalar, UncertainError
    from holdfast.amlconfig.plain import read_plain

    lines = (_text(top, os.path.join(folder, "meta.yaml"), _LARGEST_META) or "").splitlines()
    try:
        try:
            root: object = read_plain(lines)
        except UncertainError:
            root = read_full(lines)
    except RefusedError:
        return {}
    entries = root.entries if isinstance(root, Mapping) else ()
    return {key.text: _value(value) for key, value in entries if isinstance(value, Scalar)}


def _value(value: Scalar) -> object:
    if value.quoted:
        return value.text
    digits = value.text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 20
    return None if value.is_null else int(value.text) if is_number else value.text


def _text(top: str, path: str, limit: int) -> str | None:
    try:
        return readable(untrusted.read_file(path, limit, top, follow=False))
    except (OSError, untrusted.Untrusted):
        return None


def _is_inside(path: str, top: str) -> bool:
    try:
        return bool(untrusted.inside(path, top))
    except untrusted.Untrusted:
        return False


def _of_database(path: str) -> Iterator[MlflowRun]:
    import sqlite3
    from pathlib import Path

    _refuse_irregular(path)
    db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        _refuse_programs(db, path)
        yield from _of_rows(db, os.path.dirname(os.path.abspath(path)))
    except sqlite3.Error as error:
        raise UsageError("this is not an MLflow database", where=path, answer=str(error), hint=_HINT) from None
    finally:
        db.close()


def _refuse_irregular(path: str) -> None:
    """SQLite would wait for a pipe in the place of one of its files, and follow a link."""
    try:
        os.close(untrusted.open_file(path))
        for file in (path + end for end in _BESIDE_DATABASE):
            if os.path.lexists(file):
                os.close(untrusted.open_file(file, follow=False))
    except (OSError, untrusted.Untrusted) as error:
        raise UsageError("this is not an MLflow database", where=path, answer=str(error), hint=_HINT) from None


def _refuse_programs(db: sqlite3.Connection, path: str) -> None:
    """A view, a virtual table or a computed column in the place of rows can run for ever, or fill the memory."""
    for table in _TABLES:
        kinds = db.execute("SELECT type, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", (table,)).fetchall()
        is_plain = [kind for kind, sql in kinds] == ["table"] and not str(kinds[0][1]).upper().startswith("CREATE VIRT")
        hidden = [row[6] for row in db.execute("SELECT * FROM pragma_table_xinfo(?)", (table,))] if is_plain else []
        if not is_plain or any(hidden):
            raise UsageError("this is not an MLflow database", where=path, answer=f"no plain table {table}", hint=_HINT)


def _of_rows(db: sqlite3.Connection, folder: str) -> Iterator[MlflowRun]:
    query = (
        "SELECT r.run_uuid, e.name, r.name, r.user_id, r.status, r.start_time, r.end_time, r.artifact_uri,"
        " r.experiment_id FROM runs r JOIN experiments e ON e.experiment_id = r.experiment_id"
        " WHERE r.lifecycle_stage = 'active' AND e.lifecycle_stage = 'active' ORDER BY r.start_time, r.run_uuid"
    )
    for uid, experiment, name, user, status, start, end, uri, number in db.execute(query).fetchall():
        pairs = [
            {str(key): str(value) for key, value in db.execute(pairs_of, (uid,))}
            for pairs_of in (
                "SELECT key, value FROM params WHERE run_uuid = ?",
                "SELECT key, value FROM tags WHERE run_uuid = ?",
            )
        ]
        yield MlflowRun(
            *(str(uid), str(experiment), str(name or ""), str(user or ""), str(status), _whole(start), _whole(end)),
            params=pairs[0],
            tags=pairs[1],
            metrics=_series(db, str(uid)),
            artifacts=_artifacts(folder, str(number), str(uid), str(uri or "")),
        )


def _series(db: sqlite3.Connection, uid: str) -> dict[str, list[Point]]:
    query = "SELECT key, timestamp, value, step, is_nan FROM metrics WHERE run_uuid = ? ORDER BY timestamp, step"
    series: dict[str, list[Point]] = {}
    for key, moment, value, step, is_nan in db.execute(query, (uid,)):
        series.setdefault(str(key), []).append((_whole(moment), _number(value, bool(is_nan)), _whole(step)))
    return series


def _number(value: object, is_nan: bool) -> float:
    """Any value can be in any column of such a database."""
    if is_nan or not isinstance(value, (int, float)):
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= _GREATEST else float(value)


def _artifacts(folder: str, experiment: str, uid: str, uri: str) -> str:
    """Beside the database, else where the run says, if that is really a folder of this run and no other."""
    try:
        untrusted.hexadecimal(uid, 32)
        untrusted.component(experiment)
        address = urlsplit(uri)
    except ValueError:
        return ""
    named = unquote(address.path) if address.scheme in ("", "file") and not address.netloc else ""
    places = [os.path.join(folder, name, experiment, uid, "artifacts") for name in ("mlruns", "mlartifacts")]
    places += [os.path.join(folder, named)] if named else []
    own = os.path.join(os.sep, uid, "artifacts")
    return next((path for path in places if os.path.isdir(path) and os.path.realpath(path).endswith(own)), "")


def _whole(value: object) -> int:
    is_sane = isinstance(value, int) and not isinstance(value, bool) and -_LATEST < value < _LATEST
    return int(str(value)) if is_sane else 0
