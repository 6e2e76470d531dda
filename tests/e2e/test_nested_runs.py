"""Runs that a script starts: they are runs apart and outlive it; a process that only looks like one does not."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import alive, eventually

if TYPE_CHECKING:
    from conftest import Desk

INNER = "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
SUBMIT = "holdfast submit -c local --no-wait inner.py {gate} > /dev/null"
SWEEP = """
import os, sys, time
for command in sys.argv[2:]:
    assert os.system(command) == 0
print('submitted', flush=True)
while sys.argv[1] != 'end' and not os.path.exists(sys.argv[1]): time.sleep(0.02)
"""
# Processes that try to look like a run: by variables, by a lock of the right name, by a whole run made up in a folder.
PRETENDER = """
import fcntl, os, sys, time
if os.fork() == 0:
    os.setsid()
    way, store = sys.argv[1], sys.argv[2]
    folder = os.path.join(store, 'runs', 'f' * 32, 'a1')
    os.makedirs(folder)
    if way != 'variables':
        lock = open(os.path.join(folder, 'alive'), 'w')
        fcntl.flock(lock, fcntl.LOCK_EX)
    if way == 'unlocked':
        fcntl.flock(lock, fcntl.LOCK_UN)
    if way in ('events', 'unlocked'):
        named = os.getpid() if way == 'unlocked' else os.getppid()
        open(os.path.join(folder, 'events.jsonl'), 'w').write('{"type": "accepted", "pid": %d}\\n' % named)
        open(os.path.join(folder, '..', 'run.json'), 'w').write('{}')
    with open(sys.argv[3], 'w') as note: note.write('%d\\n' % os.getpid())
    os.environ.update(HOLDFAST_RUN_UID='f' * 32)
    os.execve(sys.executable, [sys.executable, '-c', 'import time; time.sleep(600)'], os.environ)
while not os.path.exists(sys.argv[3]) or not open(sys.argv[3]).read().endswith('\\n'): time.sleep(0.01)
"""


def _runs(desk: Desk) -> dict[str, dict[str, Any]]:
    """Of each script the newest run."""
    found: list[dict[str, Any]] = desk.holdfast("history", "list", "-o", "json").json
    return {record["script_name"]: record for record in sorted(found, key=lambda record: record["run_number"])}


def _watchers(desk: Desk, run: str) -> list[int]:
    accepted = desk.events(run)[0]
    return [accepted["pid"], accepted["guardian"]]


def test_run_started_by_script_outlives_it(desk: Desk, tmp_path: Path) -> None:
    desk.script(INNER, "inner.py")
    desk.script(SWEEP)
    gate = tmp_path / "gate"
    outer = desk.submit("train.py", "end", *[SUBMIT.format(gate=gate)] * 2)
    assert outer.code == 0, outer
    found: list[dict[str, Any]] = desk.holdfast("history", "list", "-o", "json").json
    inner = [record for record in found if record["script_name"] == "inner.py"]
    (first,) = [record for record in found if record["script_name"] == "train.py"]
    assert [record["status"] for record in inner] == ["Running", "Running"]
    assert {record["parent_run_id"] for record in inner} == {first["run_id"]}
    assert "leftovers" not in [event["type"] for event in desk.events(first["run_id"])]
    eventually(lambda: not any(map(alive, _watchers(desk, first["run_id"]))))
    gate.touch()
    for record in inner:
        assert desk.wait_for_end(record["run_id"])["status"] == "Completed"
        assert b"up" in desk.holdfast("logs", "-r", record["run_id"]).out


@pytest.mark.parametrize("end", ["cancel", "timeout", "supervisor", "guardian", "both"])
def test_run_started_by_script_survives_every_end_of_the_outer_run(desk: Desk, tmp_path: Path, end: str) -> None:
    desk.script(INNER, "inner.py")
    desk.script(SWEEP)
    gate, never = tmp_path / "gate", tmp_path / "never"
    words = ["--timeout", "3s"] if end == "timeout" else []
    desk.submit("--no-wait", *words, "train.py", str(never), SUBMIT.format(gate=gate))
    eventually(lambda: b"submitted" in desk.holdfast("logs", "-r", "1").out, 60)
    outer, inner = _runs(desk)["train.py"]["run_id"], _runs(desk)["inner.py"]["run_id"]
    supervisor, guardian = _watchers(desk, outer)
    script = next(event["pid"] for event in desk.events(outer) if event["type"] == "started")
    if end == "cancel":
        assert desk.holdfast("cancel", "-r", outer).code == 0
    elif end == "both":
        for pid in (guardian, supervisor):
            os.kill(pid, signal.SIGSTOP)
        for pid in (guardian, supervisor):
            os.kill(pid, signal.SIGKILL)
    elif end != "timeout":
        os.kill(supervisor if end == "supervisor" else guardian, signal.SIGKILL)
    status = desk.wait_for_end(outer)["status"]
    assert status == {"cancel": "Canceled", "timeout": "Failed"}.get(end, "Lost")
    eventually(lambda: not any(map(alive, (script, supervisor, guardian))))
    assert desk.record(inner)["status"] == "Running"
    gate.touch()
    assert desk.wait_for_end(inner)["status"] == "Completed"


def test_inner_run_is_canceled_by_its_own_name(desk: Desk, tmp_path: Path) -> None:
    desk.script(INNER, "inner.py")
    desk.script(SWEEP)
    assert desk.submit("train.py", "end", SUBMIT.format(gate=tmp_path / "gate")).code == 0
    inner = _runs(desk)["inner.py"]["run_id"]
    pids = _watchers(desk, inner)
    assert desk.holdfast("cancel", "-r", inner).code == 0
    assert desk.wait_for_end(inner)["status"] == "Canceled"
    eventually(lambda: not any(map(alive, pids)))


@pytest.mark.parametrize("way", ["variables", "lock", "events", "unlocked"])
def test_process_that_pretends_to_be_a_run_ends_with_the_script(desk: Desk, tmp_path: Path, way: str) -> None:
    desk.script(PRETENDER)
    note = tmp_path / "pid"
    result = desk.submit("train.py", way, str(desk.home), str(note))
    assert result.code == 0, result
    pid = int(note.read_text())
    eventually(lambda: not alive(pid))
    (leftovers,) = [event for event in desk.events("1") if event["type"] == "leftovers"]
    assert leftovers["count"] == 1


def test_local_target_with_a_store_of_its_own(desk: Desk, tmp_path: Path) -> None:
    """The inner run's attempt lies in another store than the outer's."""
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "other.compute").write_text(f"type: local\nroot: {tmp_path}/other\npythonLocation: {sys.executable}\n")
    desk.trust("other")
    desk.script(INNER, "inner.py")
    desk.script(SWEEP)
    gate = tmp_path / "gate"
    submit = SUBMIT.format(gate=gate).replace("-c local", "-c other")
    outer = desk.submit("train.py", "end", submit)
    assert outer.code == 0, outer
    inner = _runs(desk)["inner.py"]["run_id"]
    assert desk.record(inner)["status"] == "Running"
    gate.touch()
    assert desk.wait_for_end(inner)["status"] == "Completed"
