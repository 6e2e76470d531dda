"""Adds the record of an executed cell to the history: a run that has ended, without a snapshot."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re

from holdfast import _version
from holdfast.engine.transfer.finished_run import Ending, close, put
from holdfast.errors import MalformedAnswerError
from holdfast.project import remember
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.store import layout
from holdfast.store.staging import Staging, free_id, taken_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.model import Json, Project
    from holdfast.store.home import Home

_METRICS_FILE = re.compile(r"\d+-\d+(-\d+)?\.[a-z]{1,8}")
_CELL = "cell.py"


class Notebook(Record):
    """Where cells are executed. ``parent`` is the id of the kernel's run, None on this machine without one."""

    name: str
    target: str
    config: str
    parent: str | None = None


def add(home: Home, project: Project, notebook: Notebook, record: dict[str, Any]) -> str:
    """Returns the run id. The record may come from a target: nothing in it is believed."""
    try:
        return _add(home, remember(project), notebook, record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = "the target sent a malformed record of a cell"
        raise MalformedAnswerError(what, where=notebook.target, answer=f"{type(error).__name__}: {error}") from error


def _add(home: Home, project: Project, notebook: Notebook, record: dict[str, Any]) -> str:
    start, end = (int(float(record[key]) * 1000) for key in ("start", "end"))
    uid = os.urandom(16).hex()
    with Staging(home) as stage:
        attempt = stage.run(uid, "a1")
        os.makedirs(layout.metrics(attempt), 0o700)
        for name, content in record["metrics"].items():
            if _METRICS_FILE.fullmatch(name):
                put(os.path.join(layout.metrics(attempt), name), base64.b64decode(content))
        _write_outputs(attempt, record, end)
        put(layout.log(attempt), str(record["log"]).encode("utf-8", "replace"))
        error = str(record["error"])
        outcome, code = ("failed", 1) if error else ("completed", 0)
        close(attempt, Ending(outcome, code, error, start * 1_000_000, max(start, end) * 1_000_000, "notebook"))
        stage.settle()
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project.name)[:100]
        run_id = free_id(f"{plain or 'notebook'}_{max(start, 0)}", taken_ids(home))
        stage.publish(uid, run_id, _request(project, notebook, int(record["number"]), start))
    return run_id


def _write_outputs(attempt: str, record: dict[str, Any], end: int) -> None:
    contents = {name: base64.b64decode(content) for name, content in record["outputs"].items()}
    contents[_CELL] = str(record["source"]).encode("utf-8", "replace")
    rows = []
    for name, data in sorted(contents.items()):
        if "\\" in name or not name.isprintable():
            raise ValueError("not a valid output name")
        path = untrusted.below(layout.outputs(attempt), name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        put(path, data)
        digest, moment = hashlib.sha256(data).hexdigest(), max(end, 0) * 1_000_000
        rows.append({"path": name, "size": len(data), "seen_ns": moment, "mtime_ns": moment, "sha256": digest})
    put(layout.manifest(attempt), b"".join(json.dumps(row).encode() + b"\n" for row in rows))


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
