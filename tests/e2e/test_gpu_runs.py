"""A run with GPUs as a person sees it: waiting, started, over. What the runner would write is written by hand."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from conftest import HOLDFAST, eventually
from fakenvml import GPU, HAS_COMPILER, FakeGpus
from gpuruns import CARD, FIVE_LINES, USE, HandRun, receipt, write_series

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

HELD = "GPU 0 is reserved by digits_1 of bob"
FACTS = {"state": "measured", "driver": "550.54.14", "cuda": "12.4", "trouble": "", "gpus": [CARD]}


def test_a_dry_run_shows_the_wish(desk: Desk) -> None:
    desk.script("")
    assert desk.submit("--dry-run", "train.py").json["gpu"] is None
    asked = desk.submit("--dry-run", "--gpus", "2", "--require-gpu", "--wait-for-gpu", "2h", "train.py").json["gpu"]
    assert (asked["count"], asked["require"], asked["wait_s"], asked["wait_text"]) == (2, True, 7200, "2h")
    assert (asked["grace_s"], asked["grace_text"], asked["shared"]) == (600, "10m", False)


def test_a_dry_run_on_a_container_with_cards(desk: Desk) -> None:
    desk.script("")
    folder = desk.project / "aml_config"
    folder.mkdir()
    (folder / "box.compute").write_text("type: docker\nbaseDockerImage: python:3.11\nnvidiaDocker: true\n")
    found = desk.holdfast("submit", "-c", "box", "--dry-run", "train.py")
    assert (found.json["gpu"]["count"], found.json["gpu"]["shared"]) == ("all", True), found.err
    (folder / "plain.compute").write_text("type: docker\nbaseDockerImage: python:3.11\n")
    assert desk.holdfast("submit", "-c", "plain", "--dry-run", "train.py").json["gpu"] is None
    required = desk.holdfast("submit", "-c", "plain", "--require-gpu", "--dry-run", "train.py").json["gpu"]
    assert (required["count"], required["require"]) == (None, True)


def test_two_masters_are_refused_before_anything_is_stored(desk: Desk) -> None:
    desk.script("")
    refused = desk.submit("--gpus", "1", "-e", "CUDA_VISIBLE_DEVICES=0", "train.py")
    assert refused.code == 2
    assert "--gpus 1" in refused.err
    assert "-e CUDA_VISIBLE_DEVICES" in refused.err
    assert not (desk.home / "runs").exists() or list((desk.home / "runs").iterdir()) == []


def test_a_queued_run_is_shown_as_that(desk: Desk) -> None:
    run = HandRun(desk)
    run.add("queued", position=2, reason=HELD, ahead=[])
    assert desk.record()["status"] == "Queued"
    assert [record["status"] for record in desk.holdfast("history", "list").json] == ["Queued"]
    lines = desk.holdfast("status").text.splitlines()
    assert "state : Queued" in lines
    assert f"reason : position 2, {HELD}" in lines
    assert f"position 2, {HELD}" in desk.holdfast("info", "-o", "table").text


def test_watching_in_a_pipe(desk: Desk) -> None:
    """Every change of place is a line; the cards come before the log; the verdict is the last word."""
    run = HandRun(desk)
    run.add("queued", position=3, reason="old news", ahead=[])
    run.add("queued", position=2, reason=HELD, ahead=[])
    with desk.start("logs", "-f") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline().decode() == f"queued: position 2, {HELD}\n"
        run.add("queued", position=2, reason=HELD, ahead=[])
        run.add("queued", position=1, reason=HELD, ahead=[])
        assert process.stderr.readline().decode() == f"queued: position 1, {HELD}\n"
        run.add("gpu_taken", uuids=["GPU-1"], shared=False, waited_s=2.0)
        run.add("gpu_facts", **FACTS)
        run.add("gpu_check", ok=False, why="torch is a build without CUDA", fix="write torch==2.6.0+cu124", facts={})
        assert process.stderr.readline().decode() == "WARNING: torch is a build without CUDA\n"
        assert process.stderr.readline().decode() == "         write torch==2.6.0+cu124\n"
        run.add("started", pid=1, start_time=1, program="python")
        run.log("epoch 1\n")
        shown = b"".join(process.stdout.readline() for _ in range(6)).decode()
        assert shown == FIVE_LINES + "epoch 1\n"
        run.add("gpu_context", uuid="GPU-1", pid=4711, program="python", after_s=1.5)
        run.add("gpu_stranger", uuid="GPU-1", pid=7, user="bob", program="python3", after_s=3.0)
        run.add("gpu_xid", uuid="GPU-1", xid=31, meaning="invalid memory access", after_s=4.0)
        run.add("gpu_lost", uuid="GPU-1", why="it has fallen off the bus", after_s=5.0)
        said = [process.stderr.readline().decode() for _ in range(3)]
        assert "another process uses the run's GPU: bob python3 (pid 7), 3.00 s after the start" in said[0]
        assert "Xid 31: invalid memory access" in said[1]
        assert "is lost, 5.00 s after the start: it has fallen off the bus" in said[2]
        run.add("gpu_held", holders=[{"pid": 9, "user": "ada", "program": "python"}])
        run.end(**receipt())
        out, err = process.communicate(timeout=60)
    assert out == b""
    assert process.returncode == 0
    lines = err.decode().splitlines()
    assert "Completed" in lines[0]
    assert lines[1].startswith("No metrics. ")
    assert lines[2:] == [
        "still on the GPU: ada python (pid 9)",
        "GPU used: NVIDIA H200, busy 41.0 s of 52.1 s (79 %), peak 12.3 GB, 9.1 Wh",
    ]
    assert (run.attempt / "log").read_text() == "epoch 1\n", "the cards are shown, not logged"


def test_the_log_waits_for_the_cards(desk: Desk) -> None:
    """From another machine the log may arrive before the events of the same moment."""
    run = HandRun(desk)
    run.log("first words\n")
    with desk.start("logs", "-f") as process:
        assert process.stderr is not None
        run.add("queued", position=1, reason=HELD, ahead=[])
        assert process.stderr.readline().decode() == f"queued: position 1, {HELD}\n", "it has read all there is"
        run.add("gpu_facts", **FACTS)
        run.add("started", pid=1, start_time=1, program="python")
        run.log("more\n")
        run.end(**receipt())
        out, _ = process.communicate(timeout=60)
    assert out.decode() == f"{FIVE_LINES}first words\nmore\n"


def test_a_log_without_events_is_not_kept_back(desk: Desk) -> None:
    run = HandRun(desk)
    run.log("words\n")
    run.add("queued", position=1, reason=HELD, ahead=[])
    with desk.start("logs", "-f") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"queued: ")
        run.add("closed", outcome="failed", exit_code=3, reason="x", files={}, begun={})
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, b"words\n")
    assert err.decode().splitlines()[-1].startswith("GPU not used: ")


def test_a_run_that_did_not_ask_is_shown_no_cards(desk: Desk) -> None:
    run = HandRun(desk, None)
    with desk.start("logs", "-f") as process:
        run.add("gpu_facts", **FACTS)
        run.add("started", pid=1, start_time=1, program="python")
        run.log("words\n")
        assert process.stdout is not None
        assert process.stdout.readline() == b"words\n"
        run.end(**receipt())
        out, err = process.communicate(timeout=60)
    assert out == b""
    assert err.decode().splitlines()[-1].startswith("GPU used: "), "it used one all the same"


def test_only_a_tail_is_shown_without_the_cards(desk: Desk) -> None:
    run = HandRun(desk)
    run.add("gpu_facts", **FACTS)
    run.add("started", pid=1, start_time=1, program="python")
    run.log("one\ntwo\n")
    with desk.start("logs", "-f", "--tail", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"two\n"
        run.log("three\n")
        run.end(**receipt())
        assert process.communicate(timeout=60)[0] == b"three\n"


def test_waiting_at_a_terminal(desk: Desk) -> None:
    run = HandRun(desk)
    ours, theirs = pty.openpty()
    env = {**desk.env, "TERM": "xterm", "COLUMNS": "120"}
    command = [str(HOLDFAST), "logs", "-f"]
    with subprocess.Popen(command, cwd=desk.project, env=env, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        run.add("queued", position=2, reason=HELD, ahead=[])
        shown = b""
        while shown.count(f"queued: position 2, {HELD}; waiting ".encode()) < 2:
            shown += os.read(ours, 65536)
        run.add("gpu_taken", uuids=["GPU-1"], shared=False, waited_s=2.0)
        run.add("gpu_facts", **FACTS)
        run.add("started", pid=1, start_time=1, program="python")
        run.end(outcome="failed", code=79, reason="gpu-idle: nothing was seen", **receipt("idle", "nothing was seen"))
        shown = _rest(ours, shown)
        assert process.wait(timeout=60) == 79
        assert process.stdout is not None
        assert process.stdout.read().decode() == FIVE_LINES
    os.close(ours)
    last = shown.decode().splitlines()[-1]
    assert last.startswith("\x1b[33mGPU idle\x1b[0m: NVIDIA H200 was available"), "the last line, in colour"
    waiting, _, after = shown.decode().rpartition("; waiting ")
    assert "\n" not in waiting.partition("queued")[2], "one line, drawn over"
    assert "\r\x1b[K" in after, "and taken away"


def test_a_queued_run_is_cancelled(desk: Desk) -> None:
    run = HandRun(desk)
    run.add("queued", position=1, reason=HELD, ahead=[])
    said = desk.holdfast("cancel")
    assert said.code == 0, said.err
    asked = [json.loads(line) for line in (run.attempt / "control.jsonl").read_text().splitlines()]
    assert [one["what"] for one in asked] == ["cancel"]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_gpu_chart_is_written_as_a_picture(desk: Desk, tmp_path: Path, ending: str) -> None:
    run = HandRun(desk)
    run.add("gpu_facts", **FACTS)
    run.add("started", pid=1, start_time=1, program="python")
    write_series(
        run.attempt / "gpu", {"gpu0.busy": [0.0, 90.0], "gpu0.memory": [0.0, 9e9], "gpu0.power": [80.0, 600.0]}
    )
    file = tmp_path / f"chart.{ending}"
    assert desk.holdfast("info", "--gpu-chart", str(file)).text == f"{file}\n"
    if ending == "svg":
        texts = {node.text for node in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")}
        assert {"GPU 0  NVIDIA H200", "100 %", "150 GB", "600 W", "1 s", "so far"} <= texts
    else:
        assert file.read_bytes().startswith(b"\x89PNG")
    run.end(**receipt(cards=[{**USE, "used": False}], verdict="idle", evidence="nothing"))
    assert desk.record()["gpu"]["verdict"] == "idle"
    refused = desk.holdfast("info", "--gpu-chart", "chart.gif")
    assert (refused.code, refused.text) == (2, "")


def test_an_honest_run_keeps_the_shape_of_its_record(desk: Desk) -> None:
    desk.script("print('x')")
    done = desk.submit("train.py")
    assert done.code == 0
    assert "GPU" not in done.err
    assert desk.record()["gpu"] is None


@pytest.mark.skipif(not HAS_COMPILER, reason="NOT TESTED: there is no C compiler here")
def test_a_submit_from_the_wish_to_the_verdict(desk: Desk, tmp_path: Path) -> None:
    """The real runner, and a library that stands in for NVIDIA's."""
    cards = FakeGpus(tmp_path, GPU, GPU._replace(uuid="GPU-2", name="NVIDIA L4"))
    desk.env.update(LD_LIBRARY_PATH=str(cards.folder), HOLDFAST_GPU_LOCKS=str(tmp_path / "locks"))
    desk.script("import os; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "lab.runconfig").write_text(
        "Target: local\nFramework: Python\ngpus: {count: 1, name: L4}\n"
    )
    done = desk.holdfast("submit", "-c", "lab", "train.py")
    assert done.code == 0, done.err
    lines = done.text.splitlines()
    at = lines.index("sees GPU-2")
    assert lines[at - 5] == "name: NVIDIA L4"
    assert lines[at - 1].startswith("Free memory: ")
    assert done.err.splitlines()[-1].startswith("GPU idle: NVIDIA L4 was available but not used by the script")
    for machines in (["-o", "json"], ["--query", "gpu"]):
        told = desk.holdfast("submit", "-c", "lab", *machines, "train.py")
        assert (told.json if "--query" in machines else told.json["gpu"])["verdict"] == "idle"
        assert "name: NVIDIA L4\n" in told.err, "where the log goes"
        assert told.err.splitlines()[-1].startswith("GPU idle: ")
    assert desk.record()["gpu"]["gpus"][0]["given"] is True


def _rest(terminal: int, shown: bytes) -> bytes:
    """Everything until all writers have closed it."""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # which is how Linux says that the other side is closed
            return shown
        if not block:
            return shown
        shown += block


def test_states_are_visible_without_a_watching_client(desk: Desk) -> None:
    run = HandRun(desk)
    run.add("queued", position=1, reason=HELD, ahead=[])
    eventually(lambda: desk.record()["status"] == "Queued")
    run.add("started", pid=1, start_time=1, program="python")
    eventually(lambda: desk.record()["status"] == "Running")
