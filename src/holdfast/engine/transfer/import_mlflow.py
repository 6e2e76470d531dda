"""Imports MLflow runs: parameters as arguments, metrics with their steps, tags, state, times, artifacts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct

from holdfast import _version
from holdfast.engine.transfer.finished_run import Ending, close, put
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import sealed
from holdfast.store import mlflow_reader, runs
from holdfast.store.staging import Staging, free_id, taken_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model import Json, Project
    from holdfast.store.home import Home
    from holdfast.store.mlflow_reader import MlflowRun, Point

# The format of docs/formats.md; as in track.py.
_HEADER = struct.Struct("<8sIIQQQ24x")
_RECORD = struct.Struct("<QqQd")
_STEP_FLAG = 0x80 << 56
_MS = 1_000_000
_BLOCK = 1024 * 1024
_SPARE = 64 * 1024 * 1024  # bytes of the store's disk that artifacts do not fill
_AT_ONCE = 200  # runs that are made durable together
_OUTCOMES = {"FINISHED": ("completed", 0), "FAILED": ("failed", 1), "KILLED": ("canceled", 143)}
_WORDS = "mlflow."
_ODD = re.compile(r"[^\w./-]|^(?=[^A-Za-z_])", re.ASCII)  # what would not be read back as the name of a parameter


class Brought(Record):
    """Run ids that are new here, how many were here already, how many still go on there, and what stayed behind."""

    new: list[str]
    here: int
    going: int
    left_out: list[str]


def bring(home: Home, project: Project, path: str, tell: Callable[[int, int], None]) -> Brought:
    """All runs of an MLflow store that have ended, into this project's history."""
    new: list[str] = []
    left_out: list[str] = []
    here = going = seen = 0
    waiting: list[tuple[str, str, Json]] = []
    names = _Names(taken_ids(home))
    with Staging(home) as stage:
        for run in mlflow_reader.read(path):
            seen += 1
            tell(seen, 0)
            uid = _uid(run)
            if os.path.isdir(home.run(uid)):
                here += 1
            elif run.status not in _OUTCOMES:
                going += 1
            else:
                _write(stage, uid, run, left_out)
                waiting.append((uid, names.give(run), {**_request(project, run), **names.parent(run)}))
            if len(waiting) == _AT_ONCE:
                new += _publish(stage, waiting)
        new += _publish(stage, waiting)
    return Brought(new, here, going, left_out)


class _Names:
    """Run ids as ours are: a name and the millisecond of the start, no two alike."""

    def __init__(self, taken: set[str]) -> None:
        self._by_uid: dict[str, str] = {}
        self._given = taken

    def give(self, run: MlflowRun) -> str:
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in run.experiment)[:100]
        self._by_uid[run.uid] = free_id(f"{plain or 'mlflow'}_{max(run.start, 0)}", self._given)
        self._given.add(self._by_uid[run.uid])
        return self._by_uid[run.uid]

    def parent(self, run: MlflowRun) -> Json:
        known = self._by_uid.get(run.tags.get(f"{_WORDS}parentRunId", ""))
        return {"parent_run_id": known} if known else {}


def _publish(stage: Staging, waiting: list[tuple[str, str, Json]]) -> list[str]:
    stage.settle()
    run_ids = [run_id for uid, run_id, request in waiting if stage.publish(uid, run_id, request) is not None]
    waiting.clear()
    return run_ids


def _uid(run: MlflowRun) -> str:
    """MLflow's own ids have the form of ours, so that to import again finds the same run."""
    return run.uid if runs.is_uid(run.uid) else hashlib.sha256(run.uid.encode("utf-8", "replace")).hexdigest()[:32]


def _request(project: Project, run: MlflowRun) -> Json:
    source = run.tags.get(f"{_WORDS}source.name") or "mlflow"
    commit = run.tags.get(f"{_WORDS}source.git.commit")
    request: Json = {
        "project": project.name,
        "project_id": project.id,
        "project_root": project.root,
        "script": os.path.basename(source),
        "arguments": [f"--{_ODD.sub('_', name)}={value}" for name, value in run.params.items()],
        "config": "mlflow",
        "target": "mlflow",
        "kind": "local",
        "home": "",
        "files": 0,
        "bytes": 0,
        "created_ns": run.start * _MS,
        "user": run.tags.get(f"{_WORDS}user") or run.user,
        "client": "",
        "holdfast": _version.__version__,
        "imported": True,
        "mlflow": {"run_id": run.uid, "experiment": run.experiment},
    }
    if commit:
        request["git"] = {"commit": commit, "branch": run.tags.get(f"{_WORDS}source.git.branch"), "dirty": None}
    return request


def _write(stage: Staging, uid: str, run: MlflowRun, left_out: list[str]) -> None:
    left_out += [f"{run.uid}: {name}: a symbolic link that leads out of the store" for name in run.outside]
    attempt = stage.run(uid, "a1")
    os.makedirs(layout.metrics(attempt), 0o700)
    _write_metrics(layout.metrics(attempt), run)
    rows = _copy_artifacts(run, layout.outputs(attempt), left_out)
    put(layout.manifest(attempt), b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    put(layout.log(attempt), b"")
    outcome, code = _OUTCOMES[run.status]
    reason = "" if outcome == "completed" else f"MLflow status: {run.status}"
    close(attempt, Ending(outcome, code, reason, run.start * _MS, max(run.end, run.start) * _MS, "mlflow"))
    put(layout.client(stage.run(uid)), _labels(run))


def _write_metrics(folder: str, run: MlflowRun) -> None:
    if not run.metrics:
        return
    lines, records = bytearray(), [_HEADER.pack(b"hfmetric", 1, _RECORD.size, 0, 0, run.start * _MS)]
    for name, points in run.metrics.items():
        word = len(lines) | _STEP_FLAG
        lines += json.dumps({"name": name}).encode() + b"\n"
        records += [_packed(word, point) for point in points]
    put(os.path.join(folder, "0-0.jsonl"), bytes(lines))
    put(os.path.join(folder, "0-0.m"), b"".join(records))


def _packed(word: int, point: Point) -> bytes:
    moment, value, step = point
    step = step if -(2**63) <= step < 2**63 else 0
    return _RECORD.pack(word, step, min(max(moment, 0) * _MS, 2**64 - 1), value)


def _copy_artifacts(run: MlflowRun, target: str, left_out: list[str]) -> list[Json]:
    """Regular files only, each read once; names that cannot be used here are reported."""
    rows: list[Json] = []
    for folder, folders, names in os.walk(run.artifacts) if run.artifacts else ():
        folders.sort()
        linked = [path for path in (os.path.join(folder, name) for name in folders) if os.path.islink(path)]
        left_out += [f"{run.uid}: {os.path.relpath(path, run.artifacts)!a}: a linked folder" for path in linked]
        for name in sorted(names):
            source = os.path.join(folder, name)
            path = os.path.relpath(source, run.artifacts).replace(os.sep, "/")
            try:
                if "\\" in path or not path.isprintable():
                    raise untrusted.Untrusted("not a valid output name")
                size, digest, seen = _copy(source, untrusted.below(target, path))
            except _NoRoom as error:
                left_out.append(f"{run.uid}: {path!a}: {error}")
                continue
            except (untrusted.Untrusted, FileNotFoundError, IsADirectoryError):
                left_out.append(f"{run.uid}: {path!a}")
                continue
            rows.append({"path": path, "size": size, "seen_ns": seen, "mtime_ns": seen, "sha256": digest})
    return rows


class _NoRoom(Exception):
    """The store's disk cannot take a file of that length."""


def _copy(source: str, target: str) -> tuple[int, str, int]:
    """Length, hash and time of what was copied; never more bytes than the file had at the beginning."""
    size, state = 0, hashlib.sha256()
    with open(untrusted.open_file(source, follow=False), "rb") as stream:
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        length = os.fstat(stream.fileno()).st_size
        _refuse_without_room(os.path.dirname(target), length)
        with open(target, "xb") as sink:
            while block := stream.read(min(_BLOCK, length - size)):
                state.update(block)
                size += len(block)
                if block.count(0) == len(block):
                    sink.seek(size)  # a hole stays one
                else:
                    sink.write(block)
            sink.truncate(size)
        return size, state.hexdigest(), os.fstat(stream.fileno()).st_mtime_ns


def _refuse_without_room(folder: str, needed: int) -> None:
    if not hasattr(os, "statvfs"):
        return
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if needed > free - _SPARE:
        raise _NoRoom(f"{needed} bytes, and the store's disk has {free} free")


def _labels(run: MlflowRun) -> bytes:
    """MLflow's own tags become our fields, or are left out."""
    tags = {name: value for name, value in run.tags.items() if not name.startswith(_WORDS)}
    lines: list[Json] = [{"type": "tags", "tags": {"experiment": run.experiment, **tags}}]
    name, note = run.name or run.tags.get(f"{_WORDS}runName"), run.tags.get(f"{_WORDS}note.content")
    lines += [{"type": "name", "name": name}] if name else []
    lines += [{"type": "note", "text": note}] if note else []
    return b"".join(sealed({"wall_ns": run.start * _MS, **line}) for line in lines)
