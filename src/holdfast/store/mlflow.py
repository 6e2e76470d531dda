"""What an MLflow store holds, read without MLflow: a folder of files (mlruns/) or a database (mlflow.db).

Both are read as they lie, and nothing is written. What they say is data: artifacts are taken from the run's own folder
only, links are not followed.
"""

from __future__ import annotations

import math
import os
from urllib.parse import unquote, urlsplit

from holdfast.errors import UsageError
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from typing import TypeAlias

    from holdfast.model import Json

    # time in milliseconds, value, step
    Point: TypeAlias = tuple[int, float, int]

_STATES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_LARGEST_FILE = 64 << 20
_GREATEST = 1.7976931348623157e308  # what MLflow writes into a database in the place of infinity
_HINT = "the folder mlruns, or the file mlflow.db"


class MlflowRun(Record):
    """One run. Times are milliseconds since 1970; ``artifacts`` is a folder, empty where there is none here."""

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


def read(path: str) -> Iterator[MlflowRun]:
    """Every run that was not deleted there, the oldest first."""
    database = path if os.path.isfile(path) else os.path.join(path, "mlflow.db")
    if os.path.isfile(database):
        return _of_database(database)
    for folder in (path, os.path.join(path, "mlruns")):
        if any(_experiments(folder)):
            return _of_folder(folder)
    raise UsageError("this is no store of MLflow", where=path, hint=_HINT)


def _of_folder(top: str) -> Iterator[MlflowRun]:
    found = []
    for place, experiment in _experiments(top):
        for name in sorted(os.listdir(place)):
            folder = os.path.join(place, name)
            meta = _yaml(os.path.join(folder, "meta.yaml"))
            if meta.get("lifecycle_stage") == "active" and (meta.get("run_id") or meta.get("run_uuid")):
                found.append((_whole(meta.get("start_time")), folder, meta, experiment))
    for _, folder, meta, experiment in sorted(found, key=lambda one: one[:2]):
        yield _of_files(folder, meta, experiment)


def _experiments(top: str) -> Iterator[tuple[str, str]]:
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        place = os.path.join(top, name)
        meta = _yaml(os.path.join(place, "meta.yaml"))
        if "experiment_id" in meta and not name.startswith(".") and meta.get("lifecycle_stage") == "active":
            yield place, str(meta.get("name") or name)


def _of_files(folder: str, meta: Json, experiment: str) -> MlflowRun:
    status = meta.get("status")
    metrics = {
        name: sorted(filter(None, map(_point, text.splitlines())), key=lambda point: point[0])
        for name, text in _texts(os.path.join(folder, "metrics"))
    }
    artifacts = os.path.join(folder, "artifacts")
    return MlflowRun(
        *(str(meta.get("run_id") or meta.get("run_uuid")), experiment),
        name=str(meta.get("run_name") or ""),
        user=str(meta.get("user_id") or ""),
        status=_STATES.get(status, "") if isinstance(status, int) else str(status),
        start=_whole(meta.get("start_time")),
        end=_whole(meta.get("end_time")),
        params=dict(_texts(os.path.join(folder, "params"))),
        tags=dict(_texts(os.path.join(folder, "tags"))),
        metrics={name: points for name, points in metrics.items() if points},
        artifacts=artifacts if os.path.isdir(artifacts) else "",
    )


def _texts(top: str) -> Iterator[tuple[str, str]]:
    """The files below a folder, by their path in it: so MLflow keeps a name with slashes."""
    for folder, _, names in os.walk(top):
        for name in sorted(names):
            path = os.path.join(folder, name)
            text = _text(path)
            if text is not None:
                yield os.path.relpath(path, top).replace(os.sep, "/"), text


def _point(line: str) -> Point | None:
    words = line.split()
    try:
        return int(words[0]), float(words[1]), int(words[2]) if len(words) > 2 else 0
    except (ValueError, IndexError):
        return None


def _yaml(path: str) -> Json:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = _text(path)
    try:
        found = YAML(typ="safe", pure=True).load(text) if text else None
    except (YAMLError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(path: str) -> str | None:
    if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_FILE:
        return None
    with open(path, encoding="utf-8", errors="replace") as source:
        return source.read()


def _of_database(path: str) -> Iterator[MlflowRun]:
    import sqlite3
    from pathlib import Path

    db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        yield from _of_rows(db, os.path.dirname(os.path.abspath(path)))
    except sqlite3.Error as error:
        raise UsageError("this is no database of MLflow", where=path, answer=str(error), hint=_HINT) from None
    finally:
        db.close()


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
    found: dict[str, list[Point]] = {}
    for key, moment, value, step, is_nan in db.execute(query, (uid,)):
        number = math.nan if is_nan else math.copysign(math.inf, value) if abs(value) >= _GREATEST else float(value)
        found.setdefault(str(key), []).append((_whole(moment), number, _whole(step)))
    return found


def _artifacts(folder: str, experiment: str, uid: str, uri: str) -> str:
    """Beside the database, else where the run says, if that is a folder of this run and no other."""
    said = urlsplit(uri)
    named = unquote(said.path) if said.scheme in ("", "file") and not said.netloc else ""
    mine = os.path.normpath(os.path.join(folder, named)).endswith(os.path.join(os.sep, uid, "artifacts"))
    beside = [os.path.join(folder, name, experiment, uid, "artifacts") for name in ("mlruns", "mlartifacts")]
    places = (*beside, *([os.path.join(folder, named)] if mine else ()))
    return next((place for place in places if os.path.isdir(place)), "")


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
