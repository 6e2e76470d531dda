"""An events.jsonl that lost its last lines: the script is never started again, and the store says what is wrong."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from conftest import alive, eventually
from holdfast.runner.store import evidence
from holdfast.runner.store.remove_tree import remove_tree

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

SCRIPT = """
import holdfast, os
open({witness!r}, 'a').write('started\\n')
holdfast.log('loss', 0.5)
print('said once')
open('outputs/model', 'w').write('weights')
"""


@pytest.fixture(name="witness")
def witness_fixture(desk: Desk, tmp_path: Path) -> Path:
    """A file to which every start of the script adds a line."""
    witness = tmp_path / "witness"
    desk.script(SCRIPT.format(witness=str(witness)))
    return witness


@pytest.mark.parametrize("kind", ["accepted", "started", "exited"])
def test_completed_run_with_cut_events_is_shown_as_damaged_and_not_started(
    desk: Desk, witness: Path, kind: str
) -> None:
    assert desk.submit("--retries", "3", "train.py").code == 0
    events = desk.attempt() / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if json.loads(line)["type"] == kind)
    events.write_bytes(b"".join(lines[:at]))
    found = desk.holdfast("store", "verify", "-o", "json")
    assert found.code == 74
    assert str(events) in {row["path"] for row in found.json}, found
    assert desk.holdfast("store", "reindex").code == 0
    for words in (
        ("runs",),
        ("info",),
        ("logs",),
        ("logs", "-f"),
        ("status",),
        ("history", "list"),
        ("store", "prune"),
    ):
        desk.holdfast(*words)
    record = desk.record()
    assert (record["status"], record["exit_code"], record["end_time_utc"]) == ("Damaged", None, None)
    assert "events.jsonl is damaged: a command saw the run end as completed" in record["reason"]
    assert desk.holdfast("history", "list", "-o", "json").json[0]["status"] == "Damaged"
    assert "has already ended: Completed" in desk.holdfast("cancel").err
    assert events.read_bytes() == b"".join(lines[:at]), "looking writes nothing to a run that is known to have ended"
    assert "hint" not in desk.holdfast("status", "-o", "json").json
    refused = desk.holdfast("retry", "-r", "1")
    assert refused.code == 2
    assert "damaged" in refused.err
    assert witness.read_text() == "started\n"
    after = desk.holdfast("store", "verify", "-o", "json")
    assert str(events) in {row["path"] for row in after.json}, "looking must not hide the damage"


def test_verify_finds_a_cut_run_after_a_look_without_any_other_trace(desk: Desk, witness: Path) -> None:
    """The log, the outputs and the client's own lines are gone too: only the reserve tells that it was closed once."""
    assert desk.submit("train.py").code == 0
    attempt = desk.attempt()
    events = attempt / "events.jsonl"
    events.write_bytes(events.read_bytes().splitlines(keepends=True)[0])
    for path in (attempt.parent / "client.jsonl", attempt / "log", attempt / "outputs.jsonl"):
        path.unlink()
    for folder in ("metrics", "outputs"):
        shutil.rmtree(attempt / folder)
    assert desk.holdfast("store", "reindex").code == 0
    assert desk.holdfast("runs").code == 0
    record = desk.record()
    assert (record["status"], record["end_time_utc"], record["duration"]) == ("Lost", None, None)
    found = desk.holdfast("store", "verify", "-o", "json")
    assert (found.code, str(events) in {row["path"] for row in found.json}) == (74, True), found


@pytest.mark.parametrize("wait", [True, False])
def test_run_whose_attempt_folder_vanished_is_not_failed(desk: Desk, witness: Path, wait: bool) -> None:
    assert desk.submit(*([] if wait else ["--no-wait"]), "train.py").code == 0
    attempt = desk.attempt()
    desk.wait_for_end()
    shutil.rmtree(attempt)
    assert desk.holdfast("store", "reindex").code == 0
    assert desk.holdfast("runs").code == 0
    record = desk.record()
    assert record["status"] == ("Damaged" if wait else "Lost"), record
    assert attempt.exists() is not wait
    assert desk.holdfast("store", "verify").code == (74 if wait else 0)


def test_list_and_info_agree_about_a_cut_run_file(desk: Desk, witness: Path) -> None:
    assert desk.submit("train.py").code == 0
    assert desk.holdfast("history", "list", "-o", "json").json[0]["status"] == "Completed"
    path = desk.attempt().parent / "run.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:40])
    listed = desk.holdfast("history", "list", "-o", "json")
    assert [row["status"] for row in listed.json] == ["Damaged"] == [desk.record(path.parent.name)["status"]]
    assert "a run is damaged" in listed.err
    path.write_bytes(whole)
    assert desk.holdfast("history", "list", "-o", "json").json[0]["status"] == "Completed"


def test_run_lost_before_its_script_began_is_started_again_by_retry_alone(desk: Desk, witness: Path) -> None:
    attempt = _lost_before_beginning(desk)
    for words in (("runs",), ("info",), ("logs", "-f"), ("store", "prune")):
        desk.holdfast(*words)
    assert not witness.exists()
    assert desk.record()["status"] == "Lost"
    assert "holdfast retry -r 1" in desk.holdfast("status").text
    assert desk.holdfast("retry", "-r", "1").code == 0
    assert desk.wait_for_end()["status"] == "Completed"
    assert witness.read_text() == "started\n"
    assert desk.holdfast("retry", "-r", "1").code == 2
    assert (attempt.parent / "a2" / "plan.json").exists()
    assert desk.holdfast("store", "verify").code == 0


def test_run_with_a_variable_whose_value_is_not_kept_is_refused(desk: Desk, witness: Path) -> None:
    _lost_before_beginning(desk, "-e", "LEVEL=1")
    refused = desk.holdfast("retry")
    assert refused.code == 2
    assert "environment variables" in refused.err


def test_index_that_knows_an_end_which_the_folder_does_not_is_reported(desk: Desk, witness: Path) -> None:
    assert desk.submit("train.py").code == 0
    assert desk.holdfast("runs").code == 0
    (desk.attempt() / "events.jsonl").unlink()
    problems = desk.holdfast("store", "verify", "-o", "json").json
    assert any(row["path"].endswith("index.sqlite") for row in problems), problems


@pytest.mark.parametrize("trace", ["log", "metrics/1-0.m", "outputs.jsonl"])
def test_each_trace_of_a_start_contradicts_events_without_one(tmp_path: Path, trace: str) -> None:
    (tmp_path / "metrics").mkdir()
    accepted = [{"type": "accepted"}]
    assert evidence.contradictions(os.fsencode(tmp_path), accepted, where_it_ran=False) == []
    (tmp_path / trace).write_bytes(b"x")
    assert evidence.contradictions(os.fsencode(tmp_path), accepted, where_it_ran=False)


def test_submit_that_fails_for_want_of_descriptors_is_final(desk: Desk, witness: Path) -> None:
    """Whatever step fails, the run is closed when the command ends, and no later command starts its script."""
    codes = set()
    for limit in range(8, 15):
        result = desk.submit("train.py", preexec_fn=lambda most=limit: _limit_descriptors(most))
        codes.add(result.code)
        starts = witness.read_text() if witness.exists() else ""
        rows = desk.holdfast("history", "list", "-o", "json").json
        assert {row["status"] for row in rows} <= {"Completed", "Failed", "Lost"}, (limit, result, rows)
        assert (witness.read_text() if witness.exists() else "") == starts, limit
    assert len(codes) > 1, "the limits changed nothing"


def _limit_descriptors(most: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _lost_before_beginning(desk: Desk, *options: str) -> Path:
    """Both watchers killed while the environment is being made: here, while the work folder is copied."""
    (desk.project / "many").mkdir()
    for number in range(4000):
        (desk.project / "many" / str(number)).write_text(str(number))
    with desk.start("submit", "-c", "local", "--no-wait", *options, "train.py") as process:
        folders = desk.home / "runs"
        eventually(lambda: any(folders.glob("*/a1/events.jsonl")))
        attempt = next(folders.glob("*/a1"))
        eventually(lambda: b'"accepted"' in (attempt / "events.jsonl").read_bytes())
        accepted = json.loads((attempt / "events.jsonl").read_bytes().splitlines()[0])
        for name in ("guardian", "pid"):
            os.kill(accepted[name], signal.SIGSTOP)
        for name in ("guardian", "pid"):
            os.kill(accepted[name], signal.SIGKILL)
        process.communicate()
    eventually(lambda: not alive(accepted["pid"]) and not alive(accepted["guardian"]))
    assert b'"started"' not in (attempt / "events.jsonl").read_bytes(), "too late"
    return attempt


def test_run_without_its_files_is_called_damaged_and_can_be_deleted(desk: Desk) -> None:
    desk.script("print(1)")
    assert desk.submit("train.py").code == 0
    attempt, archive = desk.attempt(), str(desk.user_home / "runs.zip")
    remove_tree(os.fsencode(attempt))
    attempt.mkdir()
    for path in desk.home.glob("index*"):
        path.unlink()
    for words in (("return", "-r", "1"), ("export", "-r", "1", "--to", archive)):
        result = desk.holdfast(*words)
        assert (result.code != 0, "this run is damaged" in result.err) == (True, True), result
        assert "history delete -r 1" in result.err
    deleted = desk.holdfast("delete", "-r", "1", "--yes")
    assert deleted.code == 0, deleted
    assert desk.holdfast("runs", "-o", "json").json == []
