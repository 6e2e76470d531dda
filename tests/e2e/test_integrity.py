"""What is said to be complete is complete."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk


def test_a_log_that_changed_under_us_is_not_called_complete(desk: Desk) -> None:
    """The script shortens its own log behind the runner's back: the hash in the closing event cannot match."""
    desk.script(
        "import os, glob\n"
        "print('one', flush=True)\n"
        "log = glob.glob(os.path.join(os.environ['HOLDFAST_METRICS_DIR'], '..', 'log'))[0]\n"
        "while not os.path.getsize(log): pass\n"
        "os.truncate(log, 0)\n"
    )
    result = desk.submit("train.py")
    assert result.code == 74
    assert "files of the run are damaged" in result.err


def test_a_damaged_object_stops_the_run_before_the_script_starts(desk: Desk) -> None:
    desk.script("print('must not be seen')")
    (desk.project / "data.txt").write_text("precious content")
    desk.submit("train.py")
    for path in (desk.home / "objects").rglob("*"):
        if path.is_file() and path.read_bytes() == b"precious content":
            path.chmod(0o600)
            path.write_bytes(b"precious c0ntent")
    result = desk.submit("train.py")
    assert result.code == 74
    assert b"must not be seen" not in result.out
    assert "data.txt" in result.err


def test_work_folders_go_after_their_time_without_being_asked(desk: Desk) -> None:
    desk.script("raise SystemExit(1)")
    desk.submit("train.py")
    work = desk.attempt() / "workspace/above/work"
    assert desk.holdfast("store", "prune", "--dry-run").code == 0  # notes the clock
    month_ago = time.time() - 30 * 86400
    os.utime(desk.home / "store.json", (0, month_ago - 86400))
    os.utime(desk.attempt() / "events.jsonl", (month_ago, month_ago))
    desk.submit("train.py")
    assert work.exists()  # upkeep is due once a day, and a new store has just been made
    os.utime(desk.home / "cache" / "upkeep", (0, 0))
    desk.submit("train.py")
    assert not work.exists()
    assert (desk.attempt("2") / "workspace/above/work").exists()


def test_a_store_made_by_a_newer_holdfast_is_left_alone(desk: Desk) -> None:
    desk.script("print(1)")
    desk.submit("train.py")
    store = desk.home / "store.json"
    store.write_text(json.dumps({**json.loads(store.read_text()), "layout": 99}))
    result = desk.submit("train.py")
    assert result.code == 74
    assert "newer Holdfast" in result.err


def test_without_a_home_the_error_names_the_variable_to_set(desk: Desk) -> None:
    desk.script("print(1)")
    env = {"HOLDFAST_HOME": "", "HOME": "/no/such/home"}
    result = desk.submit("train.py", env=env)
    assert result.code == 74
    assert "HOLDFAST_HOME" in result.err


def test_deleting_the_project_loses_no_run(desk: Desk) -> None:
    desk.script("print('kept')")
    desk.submit("train.py")
    run_id = desk.record()["run_id"]
    shutil.rmtree(desk.project)
    desk.project.mkdir()
    assert desk.holdfast("logs", "-r", run_id).out == b"kept\n"
