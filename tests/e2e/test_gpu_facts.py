"""``holdfast gpu``: what the GPUs of a target do and who holds them, told by a library that stands in for NVIDIA's."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from conftest import HOLDFAST, eventually
from fakenvml import GPU, HAS_COMPILER, FakeGpus
from holdfast.runner.container import nvidia_files

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
FOREIGN = 4_194_999  # above what Linux gives out, so that no process has it
HOLDS = "import os, sys\nprint('pid', os.getpid())\nopen(sys.argv[1]).read()\n"


@pytest.fixture
def gpus(desk: Desk, tmp_path: Path) -> FakeGpus:
    made = FakeGpus(tmp_path, GPU, GPU._replace(busy=97, used=3 * 10**9))
    desk.env["LD_LIBRARY_PATH"] = str(made.folder)
    return made


def test_own_run_and_foreign_process_are_distinguished(desk: Desk, gpus: FakeGpus) -> None:
    gate = desk.user_home / "gate"
    os.mkfifo(gate)
    desk.script(HOLDS)
    assert desk.submit("--detach", "train.py", str(gate)).code == 0
    log = desk.attempt() / "log"
    eventually(lambda: log.exists() and log.read_bytes().endswith(b"\n"), 100)
    pid = int(log.read_text().split()[-1])
    gpus.tell(GPU._replace(processes=((pid, 5, 0),)), GPU._replace(processes=((FOREIGN, 6, 0),)))
    found = desk.holdfast("gpu", "-c", "local", "-o", "json")
    assert found.code == 0, found.err
    record = desk.record()
    ours, foreign = (card["processes"][0] for card in found.json["gpus"])
    assert (ours["run"], ours["run_id"], ours["run_number"]) == (record["uid"], record["run_id"], 1)
    assert (foreign["pid"], foreign["run"], foreign["run_number"]) == (FOREIGN, None, None)
    table = desk.holdfast("gpu", "-c", "local", "-o", "table").text.splitlines()
    assert table[2].endswith(f"run 1 ({record['run_id']})")
    assert table[3].endswith(f"(pid {FOREIGN})")
    assert desk.holdfast("gpu", "-c", "local", "--query", "gpus[].busy_percent").json == [0, 0]
    gate.write_bytes(b"")
    assert desk.wait_for_end()["status"] == "Completed"


def test_scripts_do_not_find_our_binding(desk: Desk) -> None:
    desk.script("import importlib.util as u, sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
                "print('found', u.find_spec('pynvml'))\n")  # fmt: skip
    assert "found None" in desk.submit("train.py").text


def test_trouble_is_told_in_words_and_is_no_failure(desk: Desk, gpus: FakeGpus) -> None:
    gpus.tell(GPU, more=["* fail nvmlInit 18"])
    found = desk.holdfast("gpu", "-c", "local", "-o", "json")
    assert found.code == 0
    assert (found.json["state"], found.json["gpus"]) == ("unmeasured", [])
    assert "restart the machine" in found.json["trouble"]
    told = desk.holdfast("gpu", "-c", "local", "-o", "table", "--watch")
    assert (told.code, told.text) == (0, "")
    assert "restart the machine" in told.err


@pytest.mark.skipif(bool(nvidia_files.facts()["driver"]), reason="this machine has a driver of NVIDIA's")
def test_a_machine_without_gpus(desk: Desk) -> None:
    found = desk.holdfast("gpu", "-c", "local")
    assert found.code == 0
    assert found.json["gpus"] == []
    assert found.json["trouble"]


def test_a_name_from_a_target_cannot_act_on_the_terminal(desk: Desk, gpus: FakeGpus) -> None:
    gpus.tell(GPU._replace(name="evil\x1b]0;title\x07"))
    assert "\x1b" not in desk.holdfast("gpu", "-c", "local", "-o", "table").text


def test_watching_in_a_pipe_goes_on_until_told_to_stop(desk: Desk, gpus: FakeGpus) -> None:
    with desk.start("gpu", "-c", "local", "--watch") as process:
        assert _next_document(process)["gpus"][0]["busy_percent"] == 0
        gpus.tell(GPU._replace(busy=64))
        while _next_document(process)["gpus"][0]["busy_percent"] != 64:
            pass
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 0


def test_at_a_terminal_it_is_drawn_over(desk: Desk, gpus: FakeGpus) -> None:
    ours, theirs = pty.openpty()
    env = {**desk.env, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen([HOLDFAST, "gpu", "-c", "local"], cwd=desk.project, env=env, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"driver 550.54.14") < 2:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    os.close(ours)
    first, again, *_ = shown.decode().split("\x1b[5A\x1b[J")
    assert "lately" in first
    assert "97 %" in again
    assert "none" in again
    assert "█" in again
    assert "\x1b[3" not in shown.decode(), "no colours"


def _next_document(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout
    text = b""
    for line in process.stdout:
        text += line
        if line == b"}\n":
            return json.loads(text)
    raise AssertionError(text)
