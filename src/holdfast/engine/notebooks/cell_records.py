"""Adds the record of an executed cell to the history: a run that has ended, without a snapshot."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re

from holdfast import _version
from holdfast.engine.transfer.finished_run import Ending, close, put
from holdfast.errors import MalformedAnswerError, StoreError
from holdfast.project import remember
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout
from holdfast.store.staging import Staging, free_id, taken_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.model import Json, Project
    from holdfast.store.home import Home

_METRICS_FILE = re.compile(r"\d+-\d+(-\d+)?\.[a-z]{1,8}")
_CELL = "cell.py"
MOST_CELLS = 10_000  # records of one kernel
MOST_BYTES = 1 << 30  # of all records of one kernel
_MOST_FILES = 1000  # of one record
_LARGEST = 20 << 20  # bytes of all files of a record; what makes records keeps 16 MiB
_LONGEST = 4 << 20  # characters of a cell's source or output
_LONGEST_ERROR = 2000
_LAST_S = 1 << 33  # seconds since 1970: nanoseconds of it have 63 bits
_LAST_NUMBER = 1 << 31


class Notebook(Record):
    """Where cells are executed. ``parent`` is the id of the kernel's run, None on this machine without one."""

    name: str
    target: str
    config: str
    parent: str | None = None


class Cell(Record):
    """The record of a cell, checked. ``start`` and ``end`` are milliseconds; files by their names."""

    number: int
    start: int
    end: int
    source: bytes
    log: bytes
    error: str
    metrics: dict[str, bytes]
    outputs: dict[str, bytes]

    @property
    def size(self) -> int:
        return len(self.source) + len(self.log) + sum(map(len, (*self.metrics.values(), *self.outputs.values())))


class Budget:
    """What the records of one kernel may fill: its target may be hostile."""

    def __init__(self) -> None:
        self._cells = MOST_CELLS
        self._bytes = MOST_BYTES
        self._is_over = False

    def take(self, cell: Cell) -> bool:
        """Whether this record still fits; after the first that does not, none does."""
        self._cells -= 1
        self._bytes -= cell.size
        self._is_over = self._is_over or self._cells < 0 or self._bytes < 0
        return not self._is_over


def read(target: str, record: dict[str, Any]) -> Cell:
    """The record as a target sent it; nothing in it is believed."""
    try:
        start, end = _milliseconds(record["start"]), _milliseconds(record["end"])
        outputs = {_output_name(name): content for name, content in _files(record["outputs"]).items() if name != _CELL}
        metrics = {
            name: content for name, content in _files(record["metrics"]).items() if _METRICS_FILE.fullmatch(name)
        }
        if any(parent in outputs for name in outputs for parent in _parents(name)):
            raise ValueError("an output is both a file and a folder")
        error = _text(record["error"], _LONGEST_ERROR).decode("utf-8")
        source, log = _text(record["source"], _LONGEST), _text(record["log"], _LONGEST)
        return Cell(_number(record["number"]), start, max(start, end), source, log, error, metrics, outputs)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = "the target sent a malformed record of a cell"
        raise MalformedAnswerError(what, where=target, answer=f"{type(error).__name__}: {error}"[:500]) from error


def add(home: Home, project: Project, notebook: Notebook, cell: Cell) -> str:
    """Returns the run id."""
    try:
        return _add(home, remember(project), notebook, cell)
    except OSError as error:
        raise StoreError("the record of a cell was not stored", where=home.path, answer=str(error)) from error


def _add(home: Home, project: Project, notebook: Notebook, cell: Cell) -> str:
    uid = os.urandom(16).hex()
    with Staging(home) as stage:
        attempt = stage.run(uid, "a1")
        os.makedirs(layout.metrics(attempt), 0o700)
        for name, content in cell.metrics.items():
            put(os.path.join(layout.metrics(attempt), name), content)
        _write_outputs(attempt, cell)
        put(layout.log(attempt), cell.log)
        outcome, code = ("failed", 1) if cell.error else ("completed", 0)
        close(attempt, Ending(outcome, code, cell.error, cell.start * 1_000_000, cell.end * 1_000_000, "notebook"))
        stage.settle()
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project.name)[:100]
        run_id = free_id(f"{plain or 'notebook'}_{cell.start}", taken_ids(home))
        stage.publish(uid, run_id, _request(project, notebook, cell.number, cell.start))
    return run_id


def _write_outputs(attempt: str, cell: Cell) -> None:
    rows = []
    for name, data in sorted({**cell.outputs, _CELL: cell.source}.items()):
        path = untrusted.below(layout.outputs(attempt), name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        put(path, data)
        digest, moment = hashlib.sha256(data).hexdigest(), cell.end * 1_000_000
        rows.append({"path": name, "size": len(data), "seen_ns": moment, "mtime_ns": moment, "sha256": digest})
    put(layout.manifest(attempt), b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def _milliseconds(value: object) -> int:
    if not isinstance(value, (int, float)) or not 0 <= value < _LAST_S:
        raise ValueError("not a time")
    return int(value * 1000)


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < _LAST_NUMBER:
        raise ValueError("not the number of a cell")
    return int(value)


def _text(value: object, longest: int) -> bytes:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"not a text of at most {longest} characters")
    return value.encode("utf-8", "replace")


def _files(value: dict[str, str]) -> dict[str, bytes]:
    if len(value) > _MOST_FILES or sum(map(len, value.values())) > _LARGEST * 4 // 3:
        raise ValueError(f"more than {_MOST_FILES} files or {_LARGEST >> 20} MB")
    return {name: base64.b64decode(content) for name, content in value.items()}


def _output_name(name: str) -> str:
    if "\\" in name or not name.isprintable() or _CELL in _parents(name):
        raise ValueError("not a valid output name")
    return untrusted.relative(name)


def _parents(name: str) -> Iterator[str]:
    parts = name.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _request(project: Project, notebook: Notebook, number: int, start: int) -> Json:
    return {
        "project": project.name,
        "project_id": project.id,
        "project_root": project.root,
        "script": notebook.name,
        "arguments": ["--cell", str(number)],
        "config": notebook.config,
        "target": notebook.target,
        "kind": "local",
        "home": "",
        "files": 0,
        "bytes": 0,
        "created_ns": start * 1_000_000,
        "user": os.environ.get("USER") or str(getattr(os, "getuid", lambda: "")()),
        "client": "",
        "holdfast": _version.__version__,
        "imported": True,
        "parent_run_id": notebook.parent,
    }
