"""The run.json of a run: read, and every field checked for its type.

A field of the wrong type is left out. Where the file cannot be read, or its identity cannot be used, the run is shown
as damaged, with what the plan of its first attempt still tells about it. A file whose checksum is wrong may name
another project, in whose list it would not be searched for: its identity is used only where the plan confirms it.
"""

from __future__ import annotations

import os

from holdfast.runner import untrusted
from holdfast.runner.store import layout
from holdfast.runner.store.jsonl import append_line, is_intact, read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

_LARGEST = 64 << 20
NUMBERED = "numbered"
_NAME, _TEXT, _NUMBER, _OBJECT, _TEXTS = "file name", "text", "number", "object", "list of strings"
_GIT = "git"
_IN_GIT = {"commit": str, "branch": str, "dirty": bool, "diff": dict}
_IDENTITY = {"uid": _NAME, "run_id": _NAME, "run_number": _NUMBER, "project_id": _NAME}
_TYPES = {
    **_IDENTITY,
    **dict.fromkeys(("project", "project_root", "script", "config", "target", "kind", "home", "tree"), _TEXT),
    **dict.fromkeys(("parent_run_id", "user", "client", "client_store", "holdfast", "reproduces"), _TEXT),
    **dict.fromkeys(("description", "fetch_outputs", "name", "source"), _TEXT),
    **dict.fromkeys(("files", "bytes", "created_ns", "retries", "origin_number"), _NUMBER),
    **dict.fromkeys(("reached_by", "mlflow", "settings", "tags", "team"), _OBJECT),
    "git": _GIT,
    "arguments": _TEXTS,
    "command": _TEXTS,
}
_IN_PLAN = ("run_id", "run_number", "project", "project_id", "target", "script", "tree")


def read(folder: str, uid: str) -> tuple[Json, str, bool]:
    """The request, why the run is damaged (empty where it is not), and whether another look may succeed."""
    path = layout.request(folder)
    document, problem, intact, is_unread = _read(path)
    if not problem:
        request, odd = checked(document)
        bad = [name for name in odd if name in _IDENTITY] + [name for name in _IDENTITY if name not in document]
        if not bad and not intact:
            plan = _from_plan(folder, uid)
            bad = [name for name in ("run_id", "run_number", "project_id") if request[name] != plan.get(name)]
        if bad:
            problem = f"{path}: damaged: {', '.join(bad)}"
        elif request["uid"] != uid:
            problem = f"{path}: the run.json of another run, {str(request['uid'])[:40]}"
        else:
            return request, "", False
    return _from_plan(folder, uid), problem, is_unread


def is_changed(folder: str) -> bool:
    """Whether the checksum of a run.json that can be read is wrong."""
    _, problem, intact, _ = _read(layout.request(folder))
    return not problem and not intact


def checked(document: Json) -> tuple[Json, list[str]]:
    """The fields whose types are right, and the names of the others."""
    odd = [name for name, kind in _TYPES.items() if document.get(name) is not None and not _is(kind, document[name])]
    odd += [name for name in _IDENTITY if name in document and document[name] is None]
    return ({name: value for name, value in document.items() if name not in odd} if odd else document), odd


def read_object(path: str) -> tuple[Json, str]:
    """A file that is one JSON object, and what is wrong with it."""
    return _read(path)[:2]


def _read(path: str) -> tuple[Json, str, bool, bool]:
    """The object, what is wrong with it, whether its checksum is right, and whether the system refused to read it."""
    try:
        data = untrusted.read_file(path, _LARGEST)
        document = untrusted.loads(data)
    except OSError as error:
        return {}, f"{path}: {error}", False, not isinstance(error, FileNotFoundError)
    except ValueError as error:
        return {}, f"{path}: {error}", False, False
    if not isinstance(document, dict):
        return {}, f"{path}: not an object", False, False
    return document, "", is_intact(data.rstrip(b"\n")), False


def _from_plan(folder: str, uid: str) -> Json:
    plan, _ = read_object(layout.plan(layout.attempt(folder, 1)))
    request, _ = checked({name: plan[name] for name in _IN_PLAN if name in plan} if plan.get("uid") == uid else {})
    return {**request, **_number_here(folder)} if request else request


def note_number(folder: str, number: int) -> None:
    """For a run from elsewhere, whose plan has the number that it had there."""
    append_line(os.fsencode(layout.client(folder)), {"type": NUMBERED, "run_number": number})


def _number_here(folder: str) -> Json:
    try:
        lines = read_lines(os.fsencode(layout.client(folder)), _LARGEST)
    except (OSError, untrusted.TooLargeError):
        return {}
    numbers = [line["run_number"] for line in lines if line.get("type") == NUMBERED and "run_number" in line]
    return checked({"run_number": numbers[-1]})[0] if numbers else {}


def _is(kind: str, value: object) -> bool:
    if kind == _NAME:
        try:
            return isinstance(value, str) and bool(untrusted.component(value))
        except untrusted.Untrusted:
            return False
    if kind == _TEXT:
        return isinstance(value, str)
    if kind == _NUMBER:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if kind == _GIT:
        return isinstance(value, dict) and all(isinstance(value.get(k), (t, type(None))) for k, t in _IN_GIT.items())
    if kind == _OBJECT:
        return isinstance(value, dict)
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
