"""How a container's end is told, by a row for each way to end; notes from within that are not what they should be."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from conftest import alive, eventually
from holdfast.runner.container import monitor
from lab.pythons import OLDEST, python_of

OOM = "out of memory (limit 64 MB)"
DOWN = "the container was stopped by docker, which was shut down"
REMOVED = "the container was killed or removed externally"
KILLED = "the container was killed externally, or by the kernel when memory ran out"
EXITED_3, BY_SIGKILL, BY_SIGTERM = 3 << 8, int(signal.SIGKILL), int(signal.SIGTERM)


@pytest.fixture
def charge(tmp_path: Path) -> monitor.Charge:
    """Of an engine that answers."""
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "inside").mkdir()
    made = monitor.Charge(str(program), "holdfast-x-a1", [], b"", os.fsencode(tmp_path))
    made.limit = "64 MB"
    return made


def read(charge: monitor.Charge, note: object) -> dict[str, object] | None:
    Path(os.fsdecode(charge.note)).write_text(json.dumps(note))
    return monitor.read_note(charge.note)


# With a note: what it says, whether we had lost sight of the container, whether a stop was asked for -> code, reason.
BY_NOTE: dict[str, tuple[dict[str, Any], bool, bool, int, str]] = {
    "well": ({"status": 0}, False, False, 0, ""),
    "well, after a daemon's restart": ({"status": 0}, True, False, 0, ""),
    "well, though told to stop": ({"status": 0, "told": [15]}, False, False, 0, ""),
    "with a code": ({"status": EXITED_3}, False, False, 3, ""),
    "by a signal": ({"status": int(signal.SIGSEGV)}, False, False, -11, ""),
    "by a signal, with a core": ({"status": int(signal.SIGSEGV) | 0x80}, False, False, -11, ""),
    "canceled": ({"status": BY_SIGTERM, "told": [15]}, False, True, -15, ""),
    "canceled, with a code": ({"status": EXITED_3, "told": [15]}, False, True, 3, ""),
    "out of memory": ({"status": BY_SIGKILL, "out_of_memory": 1}, False, False, -9, OOM),
    "out of memory in a child": (
        {"status": EXITED_3, "out_of_memory": 2},
        False,
        False,
        3,
        f"{OOM}; the script then exited with code 3",
    ),
    "a child out of memory, and well": ({"status": 0, "out_of_memory": 1}, False, False, 0, ""),
    "stopped by its daemon": ({"status": BY_SIGTERM, "told": [15]}, True, False, -15, DOWN),
    "stopped by somebody": (
        {"status": BY_SIGTERM, "told": [15]},
        False,
        False,
        -15,
        "the container was stopped by another program, or by docker when it was restarted",
    ),
    "never started": (
        {"trouble": "No such file: 'python9'"},
        False,
        False,
        127,
        "the script could not be started in the container: No such file: 'python9'",
    ),
    "never started, and nobody says why": (
        {"trouble": ""},
        False,
        False,
        127,
        "the script could not be started in the container: ",
    ),
}

# Without: what the engine says, lost sight, asked -> code, reason.
BY_ENGINE: dict[str, tuple[dict[str, Any], bool, bool, int, str]] = {
    "out of memory": ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, False, False, -9, OOM),
    "killed": ({"Status": "exited", "ExitCode": 137}, False, False, -9, KILLED),
    "killed by us": ({"Status": "exited", "ExitCode": 137}, False, True, 137, ""),
    "stopped by its daemon": (
        {"Status": "exited", "ExitCode": 137},
        True,
        False,
        137,
        f"{DOWN} (exit code 137)",
    ),
    "the first process failed": (
        {"Status": "exited", "ExitCode": 1},
        False,
        False,
        1,
        "the container's first process ended with code 1 without a status of the script",
    ),
    "well, and nobody says so": (
        {"Status": "dead", "ExitCode": 0},
        False,
        False,
        0,
        "the container's first process ended with code 0 without a status of the script",
    ),
    "the first process failed when asked to end": ({"Status": "exited", "ExitCode": 1}, False, True, 1, ""),
    "removed": ({"Status": "absent", "client": 137}, False, False, -9, REMOVED),
    "removed, its client was killed": ({"Status": "absent", "client": -9}, False, False, -9, REMOVED),
    "removed by us": ({"Status": "absent", "client": 137}, False, True, -9, ""),
    "gone with its daemon": ({"Status": "absent", "client": 125}, True, False, -9, DOWN),
}


@pytest.mark.parametrize("row", BY_NOTE)
def test_a_note_tells(charge: monitor.Charge, row: str) -> None:
    note, broken, asked, code, reason = BY_NOTE[row]
    said = monitor.judge(read(charge, note), {}, charge, broken, asked)
    assert said == {"code": code, "reason": reason, "left": []}


def test_a_stop_while_the_engine_does_not_answer_was_its_own(charge: monitor.Charge) -> None:
    Path(charge.program).write_text("#!/bin/sh\nexit 1\n")
    said = monitor.judge(read(charge, {"status": BY_SIGTERM, "told": [15]}), {}, charge, False, False)
    assert said["reason"] == DOWN


@pytest.mark.parametrize("row", BY_ENGINE)
def test_where_there_is_no_note_the_engine_tells(charge: monitor.Charge, row: str) -> None:
    state, broken, asked, code, reason = BY_ENGINE[row]
    assert monitor.judge(None, state, charge, broken, asked) == {"code": code, "reason": reason}


def test_outcome_is_lost_if_no_source_knows_it(charge: monitor.Charge) -> None:
    said = monitor.judge(None, {"Status": "unknown", "why": "Cannot connect"}, charge, True, False)
    assert (said["code"], said["lost"]) == (125, True)
    assert "Cannot connect" in str(said["reason"])


@pytest.mark.parametrize("status", ["absent", "created", "configured", "initialized"])
def test_outcome_is_lost_if_the_monitor_was_killed_during_the_start(charge: monitor.Charge, status: str) -> None:
    said = monitor.judge(None, {"Status": status, "client": None}, charge, False, False)
    assert (said["code"], said["lost"]) == (125, True)
    assert "killed" in str(said["reason"])


def test_podman_leaves_word_of_an_end_for_want_of_memory(charge: monitor.Charge, tmp_path: Path) -> None:
    (tmp_path / "oom").touch()
    said = monitor.judge(None, {"Status": "exited", "ExitCode": 137}, charge, False, False)
    assert said == {"code": -9, "reason": OOM}


@pytest.mark.parametrize("code", [125, 126, 127])
@pytest.mark.parametrize("status", ["absent", "created", "configured", "initialized"])
def test_what_the_engine_complained_about_is_told_where_nothing_was_started(
    charge: monitor.Charge, status: str, code: int
) -> None:
    Path(os.fsdecode(charge.complaints)).write_text("docker: Error response from daemon: no space left on device.\n")
    said = monitor.judge(None, {"Status": status, "client": code}, charge, False, False)
    assert said["code"] == 125
    assert "could not be started: docker: Error response from daemon: no space left" in str(said["reason"])
    assert "system prune" in str(said["reason"])


def test_without_a_limit_it_was_the_machine_s_memory() -> None:
    assert monitor.out_of_memory("") == "out of memory: the machine has no free memory"


def test_what_the_script_left_is_told(charge: monitor.Charge) -> None:
    note = read(charge, {"status": 0, "left": ["sleep 5", "x" * 5000, 7, None, ["a"]]})
    assert monitor.judge(note, {}, charge, False, False)["left"] == ["sleep 5", "x" * 200, "7", "None", "['a']"]


# A script has its note within reach: it may say anything there, and is believed only what can be true.
@pytest.mark.parametrize(
    "status",
    [None, True, "0", "abc", 0.0, -1, 65536, 2**70, 0x7F, 0x137F, [], {}, float("nan")],
)
def test_an_end_that_cannot_be_is_no_end(charge: monitor.Charge, status: object) -> None:
    assert read(charge, {"status": status}) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"status"',
        b"{}",
        b'{"status": 0',
        b'{"trouble": 5}',
        b"[" * 500_000,
        b'{"status": ' + b"9" * 10_000 + b"}",
        b'{"left": "' + b"x" * 2_000_000 + b'", "status": 0}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_note_that_cannot_be_read_is_none(charge: monitor.Charge, text: bytes) -> None:
    Path(os.fsdecode(charge.note)).write_bytes(text)
    assert monitor.read_note(charge.note) is None


@pytest.mark.parametrize(
    "more",
    [
        {"left": 5, "told": "yes", "out_of_memory": {}},
        {"left": {"a": 1}, "told": {}, "out_of_memory": "no"},
        {"left": "rm -rf /", "told": 1e308, "out_of_memory": [[]]},
        {"left": ["\ud800", "\0", "\x1b[2J"], "trouble": ["x"]},
        {"left": list(range(100_000))},
    ],
)
def test_whatever_else_it_holds_the_types_are_right(charge: monitor.Charge, more: dict[str, Any]) -> None:
    for status in (0, EXITED_3):
        note = read(charge, {"status": status, **more})
        assert note is not None
        said = monitor.judge(note, {}, charge, False, False)
        assert said["code"] == status >> 8
        left = said["left"]
        assert isinstance(left, list)
        assert len(left) <= 1000
        assert all(isinstance(command, str) for command in left)
        json.dumps(said).encode("ascii")


def test_a_note_is_a_file(charge: monitor.Charge, tmp_path: Path) -> None:
    """A link leads out of the run, a pipe would be waited for, a folder cannot be read."""
    elsewhere, place = tmp_path / "elsewhere", Path(os.fsdecode(charge.note))
    elsewhere.write_text('{"status": 0}')
    place.symlink_to(elsewhere)
    assert monitor.read_note(charge.note) is None
    place.unlink()
    os.mkfifo(place)
    assert monitor.read_note(charge.note) is None
    writer = os.open(place, os.O_RDWR)
    os.write(writer, b'{"status": 0}')
    assert monitor.read_note(charge.note) is None
    os.close(writer)
    place.unlink()
    place.mkdir()
    assert monitor.read_note(charge.note) is None


def test_what_the_engine_complains_about_is_out_of_the_script_s_reach(charge: monitor.Charge, tmp_path: Path) -> None:
    assert Path(os.fsdecode(charge.complaints)).parent == tmp_path


# Takes a lock, starts the monitor of a container, prints its pid, and is killed.
SUPERVISOR = """
import fcntl, os, signal, sys
from holdfast.runner.container import monitor
attempt, program = sys.argv[1:]
lock = os.open(attempt + "/alive", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
os.mkfifo(attempt + "/inside/ended")
pid, _ = monitor.begin(monitor.Charge(program, "x", [program], b"", os.fsencode(attempt)), again=False)
while not os.path.exists(attempt + "/client"): pass
os.kill(pid, signal.SIGSTOP)
print(pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_who_looks_after_a_container_goes_with_the_supervisor_and_holds_nothing_of_it(
    charge: monitor.Charge, tmp_path: Path
) -> None:
    """Even if it was stopped, as by a supervisor that was killed while it ended everything."""
    Path(charge.program).write_text(f"#!/bin/sh\ncd {tmp_path}; echo $$ > pid; mv pid client; exec sleep 1000\n")
    argv = [sys.executable, "-c", SUPERVISOR, str(tmp_path), charge.program]
    said = subprocess.run(argv, stdout=subprocess.PIPE, check=False).stdout
    eventually(lambda: not alive(int(said)), 60)
    os.kill(int((tmp_path / "client").read_text()), signal.SIGKILL)
    with (tmp_path / "alive").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_oldest_python_reads_the_same(charge: monitor.Charge) -> None:
    python = python_of(OLDEST)
    code = "import json, os, sys; from runner.container import monitor; "
    code += "print(json.dumps(monitor.read_note(os.fsencode(sys.argv[1]))))"
    env = {"PYTHONPATH": str(Path(holdfast.__file__).parent), "LC_ALL": "C", "PATH": os.environ["PATH"]}
    for text in (b'{"status": 768, "left": ["\xc3\xa9"]}', b"[" * 500_000, b'{"status": 65536}'):
        Path(os.fsdecode(charge.note)).write_bytes(text)
        argv = [python, "-B", "-c", code, os.fsdecode(charge.note)]
        told = subprocess.run(argv, check=True, capture_output=True, env=env).stdout
        assert json.loads(told) == monitor.read_note(charge.note)
