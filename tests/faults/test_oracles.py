"""Every oracle has a planted bug that must turn it red; without one all are green."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, Result
from faults.oracles import judge, mounts_below, store_is_whole
from faults.stage import Freezer, Stage, processes_of
from holdfast.runner.store.jsonl import sealed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Sound = tuple[Stage, str]


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, Freezer]:
    stage = Stage(tmp_path_factory.mktemp("oracles") / "stage")
    result = stage.say(*stage.words(lines=12))
    assert result.code == 0, result
    assert judge(stage, thorough=True) == []
    return stage, Freezer(stage)


@pytest.fixture
def sound(furnished: tuple[Stage, Freezer]) -> Iterator[Sound]:
    """A stage with which nothing is wrong, and its newest run."""
    stage, frozen = furnished
    frozen.put_back()
    stage.patience = 15
    yield stage, stage.uid_of(max(stage.ids))
    for pid in processes_of(stage.place):
        os.kill(pid, signal.SIGKILL)


def test_o1_a_lost_run(sound: Sound) -> None:
    stage, uid = sound
    shutil.rmtree(stage.home / "runs" / uid)
    assert _red(stage) == {"O1"}


def test_o1_a_number_given_twice(sound: Sound) -> None:
    stage, uid = sound
    path = stage.home / "runs" / uid / "run.json"
    *fields, _checksum = json.loads(path.read_text()).items()
    path.write_bytes(sealed({**dict(fields), "run_number": 1}))
    stage.say("store", "reindex")
    assert "O1" in _red(stage)


def test_o2_a_script_that_is_started_twice(sound: Sound) -> None:
    stage, _ = sound
    python = stage.place / "twice"
    python.write_text(f'#!/bin/sh\n"{sys.executable}" "$@" && exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (stage.project / "aml_config").mkdir()
    (stage.project / "aml_config" / "local.compute").write_text(f"type: local\npythonLocation: {python}\n")
    stage.start_run(1, 0)
    assert "O2" in _red(stage)


def test_o3_a_second_end(sound: Sound) -> None:
    stage, uid = sound
    events = stage.attempt_of(uid) / "events.jsonl"
    last = json.loads(events.read_bytes().splitlines()[-1])
    with events.open("a") as stream:
        stream.write(json.dumps({**last, "seq": last["seq"] + 1, "outcome": "failed", "exit_code": 1}) + "\n")
    assert _red(stage) == {"O3"}


def test_o3_an_end_that_the_history_tells_otherwise(sound: Sound) -> None:
    stage, uid = sound
    events = stage.attempt_of(uid) / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"outcome":"completed"', b'"outcome":"canceled"'))
    assert "O3" in _red(stage)


def test_o3_completed_halfway(sound: Sound) -> None:
    stage, uid = sound
    (stage.truth / f"{uid}.end").unlink()
    assert _red(stage) == {"O3"}


@pytest.mark.parametrize("cut", [slice(-1), slice(1, None), slice(0, 0)], ids=["end", "start", "all"])
def test_o4_a_log_that_lacks_something(sound: Sound, cut: slice) -> None:
    stage, uid = sound
    log = stage.attempt_of(uid) / "log"
    log.write_bytes(log.read_bytes()[cut])
    assert "O4" in _red(stage)


def test_o4_a_line_that_is_there_twice(sound: Sound) -> None:
    stage, uid = sound
    log = stage.attempt_of(uid) / "log"
    log.write_bytes(log.read_bytes() + log.read_bytes()[-20:])
    assert "O4" in _red(stage)


def test_o5_a_lost_point(sound: Sound) -> None:
    stage, uid = sound
    path = next(stage.attempt_of(uid).glob("metrics/*.m"))
    path.write_bytes(path.read_bytes()[:-32])
    assert "O5" in _red(stage)


def test_o6_a_process_that_stays(sound: Sound) -> None:
    stage, _ = sound
    stage.patience = 0.3
    with subprocess.Popen(["sleep", "1000"], env={"HOLDFAST_HOME": str(stage.home)}) as process:
        assert "O6" in _red(stage)
        process.kill()


def test_o6_a_lock_that_is_held(sound: Sound) -> None:
    stage, uid = sound
    stage.patience = 0.3
    alive = stage.attempt_of(uid) / "alive"
    command = ["flock", str(alive), "sh", "-c", "echo held; read x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert "O6" in _red(stage)
        holder.communicate()


def test_o6_finds_a_temporary_name_that_is_never_removed(sound: Sound) -> None:
    stage, _ = sound
    (stage.home / "targets" / "old").mkdir(parents=True)
    (stage.home / "targets" / "old" / "half.tmp").touch()
    assert _red(stage) == {"O6"}


def test_o6_a_mount(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        f"36 35 98:0 / {tmp_path}/store/work rw,noatime - ext3 /dev/root rw\n35 1 98:0 / / rw - ext3 x rw\n"
    )
    assert mounts_below(tmp_path, table) == [f"{tmp_path}/store/work"]


def test_o7_half_an_object_under_its_final_name(sound: Sound) -> None:
    stage, _ = sound
    path = next(path for path in stage.home.glob("objects/??/*") if path.stat().st_size > 10)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:5])
    assert "O7" in _red(stage)


def test_o7_an_object_that_a_run_needs(sound: Sound) -> None:
    stage, uid = sound
    tree = stage.requests()[uid]["tree"]
    entries = json.loads((stage.home / "objects" / tree[:2] / tree[2:]).read_bytes())["entries"]
    digest = next(entry["digest"] for entry in entries if entry["type"] == "file")
    (stage.home / "objects" / digest[:2] / digest[2:]).unlink()
    assert "O7" in _red(stage)


def test_o7_an_index_that_is_no_index(sound: Sound) -> None:
    stage, _ = sound
    (stage.home / "index.sqlite").write_bytes(b"SQLite format 3\0" + bytes(5000))
    assert any("index" in finding for finding in store_is_whole(stage, []))


def test_o8_a_secret_in_a_file(sound: Sound) -> None:
    stage, uid = sound
    with (stage.attempt_of(uid) / "runner.log").open("a") as stream:
        stream.write(f"started with {stage.canary}\n")
    assert "O8" in _red(stage)


def test_o8_a_secret_that_is_printed(sound: Sound) -> None:
    stage, _ = sound
    stage.heard(Result(0, b"", f"DEBUG: CANARY={stage.canary}\n"))
    assert _red(stage) == {"O8"}


def test_o9_a_command_that_hides_a_failure(sound: Sound) -> None:
    stage, _ = sound
    stage.script("import os; fd = os.open(os.environ['TRUTH'] + '/nothing', os.O_CREAT); raise SystemExit(3)", "bad.py")
    words = " ".join(stage.words(script="bad.py"))
    command = ["sh", "-c", f"{HOLDFAST} {words}; exit 0"]
    done = subprocess.run(command, cwd=stage.project, env=stage.env, capture_output=True, check=False)
    stage.heard(Result(done.returncode, done.stdout, done.stderr.decode()))
    assert _red(stage) == {"O9"}


@pytest.mark.parametrize("words", ["Traceback (most recent call last):", "ERROR: it failed", ""])
def test_o9_a_failure_without_a_word_on_what_to_do(sound: Sound, words: str) -> None:
    stage, _ = sound
    stage.heard(Result(70, b"", words))
    assert _red(stage) == {"O9"}


def _red(stage: Stage) -> set[str]:
    return {finding.partition(":")[0] for finding in judge(stage)}
