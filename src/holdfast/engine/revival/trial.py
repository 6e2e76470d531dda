"""Runs the scripts of an old project in a copy of it, in which withdrawn things are replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

from holdfast import project as projects
from holdfast.engine.revival import fixes, project_check
from holdfast.errors import ConfigError
from holdfast.metrics import reader
from holdfast.record import Record
from holdfast.runner import decoding, untrusted
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import runs
from holdfast.trust.ownership import foreign_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from holdfast.engine.revival.survey import Report
    from holdfast.store.home import Home

_SKIPPED = frozenset({".git", ".azuremlhistory_git", "outputs", "azureml-logs", "__pycache__"})
_MOST_BYTES = 2 << 30
_TAIL = 4000


class Result(Record):
    """How one script ended. ``code`` is the exit code of the submit, ``metrics`` are the last values."""

    script: str
    code: int
    seconds: float
    run_id: str
    metrics: dict[str, object]
    tail: str


def run_all(home: Home, report: Report, *, environment: str, timeout: str) -> Iterator[Result]:
    """One result for each script that can be run, as it ends; the copy is removed afterwards."""
    parent = tempfile.mkdtemp(prefix="holdfast-revive-")
    try:
        copy = os.path.join(parent, report.name)
        _copy(report.root, copy)
        fixes.write(copy, [change for change in report.changes if os.path.exists(os.path.join(copy, change.file))])
        config = _configuration(copy)
        for script in report.entries:
            if os.path.exists(os.path.join(copy, script)):
                yield _run(home, copy, config, script, environment, timeout)
    finally:
        remove_tree(os.fsencode(parent))


def _configuration(root: str) -> str:
    """The first run configuration for this machine."""
    local = (config.name for config in project_check.configurations(root) if config.target == "local")
    return next(local, "local")


def _run(home: Home, root: str, config: str, script: str, environment: str, timeout: str) -> Result:
    command = (*_holdfast(), "submit", "-c", config, "--env", environment, "--timeout", timeout, script)
    started = time.monotonic()
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        seconds = round(time.monotonic() - started, 1)
        run_id, tail = _run_id(log), _last(log)
    return Result(script, done.returncode, seconds, run_id, _metrics(home, root, run_id), tail)


def _holdfast() -> tuple[str, ...]:
    return sys.executable, "-m", "holdfast"


def _run_id(log: IO[bytes]) -> str:
    log.seek(0)
    for line in log:
        if line.startswith(b"RunId:"):
            return decoding.readable(line[6:].strip())
    return ""


def _last(log: IO[bytes]) -> str:
    end = log.seek(0, os.SEEK_END)
    log.seek(max(0, end - _TAIL))
    return decoding.readable(log.read())


def _metrics(home: Home, root: str, run_id: str) -> dict[str, object]:
    """The last value of each metric."""
    if not run_id:
        return {}
    command = (*_holdfast(), "history", "info", "-r", run_id, "-o", "json")
    answer = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        run = runs.read(home, str(json.loads(answer.stdout)["uid"]))
    except (ValueError, KeyError, TypeError):
        return {}
    logged = reader.read_attempts(runs.metric_folders(run)).by_name
    return {name: series.values[-1] for name, series in logged.items() if series.values}


def _copy(root: str, target: str) -> None:
    """Regular files of the project; links that lead outside and special files are left out.

    So are files of other users: the copy would have them as this user's own.
    """
    room = _MOST_BYTES
    is_any = projects.is_confirmed(root)
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _SKIPPED and not os.path.islink(os.path.join(folder, name))]
        names[:] = [name for name in names if is_any or _is_own(folder, name)]
        inner = os.path.join(target, os.path.relpath(folder, root))
        os.makedirs(inner, exist_ok=True)
        for file in files:
            path = os.path.join(folder, file)
            if not is_any and not _is_own(folder, file):
                continue
            try:
                data = untrusted.read_file(path, room, root)
            except untrusted.TooLargeError:
                hint = "revive without --run, or move large data out of the project"
                raise ConfigError("the project is larger than 2 GB", where=path, hint=hint) from None
            except (OSError, ValueError):
                continue
            room -= len(data)
            with open(os.path.join(inner, file), "wb") as copied:
                copied.write(data)


def _is_own(folder: str, name: str) -> bool:
    return foreign_owner(os.path.join(folder, name)) is None
