"""A run that is started again goes on from its checkpoints, and its series go on too."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from conftest import alive, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

TRAIN = """
import holdfast, os, time
folder = os.environ["HOLDFAST_CHECKPOINTS"]
last = os.path.join(folder, "last")
first = int(open(last).read()) if os.path.exists(last) else 0
for step in range(first, 6):
    holdfast.log("loss", 10.0 - step, step=step)
    holdfast.log("counted", float(step))
    if step < 4:
        with open(last, "w") as target:
            target.write(str(step + 1))
    if step == 4 and first == 0:
        print("waits", flush=True)
        time.sleep(600)
print("resumed at", first)
"""


def kill_watchers(desk: Desk) -> None:
    """As a machine that goes down: neither supervisor nor guardian can close the run."""
    accepted = desk.events()[0]
    pids = [accepted["guardian"], accepted["pid"]]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    eventually(lambda: not any(map(alive, pids)))


def lose(desk: Desk, *words: str) -> Path:
    assert desk.submit("--no-wait", *words, "train.py").code == 0
    attempt = desk.attempt()
    eventually(lambda: b"waits" in (attempt / "log").read_bytes() if (attempt / "log").exists() else False)
    kill_watchers(desk)
    assert desk.record()["status"] == "Lost"
    return attempt


def test_second_attempt_finds_the_checkpoints_and_its_series_go_on(desk: Desk) -> None:
    desk.script(TRAIN)
    attempt = lose(desk)
    assert desk.holdfast("retry", "-r", "1").code == 0
    record = desk.wait_for_end()
    assert record["status"] == "Completed", record
    last = desk.holdfast("logs")
    assert last.text == "resumed at 4\n"
    assert "attempt 2; the log of an earlier one: holdfast logs --attempt 1" in last.err
    assert desk.holdfast("logs", "--attempt", "1").text == "waits\n"
    assert desk.holdfast("logs", "--attempt", "2", "--tail", "1").text == "resumed at 4\n"
    assert "use 1 to 2" in desk.holdfast("logs", "--attempt", "3").err
    assert record["loss"] == [10.0 - step for step in range(6)], "step 4 was logged by both attempts and counts once"
    assert record["counted"] == [0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 5.0]
    program = "import holdfast\nprint(holdfast.run(1).metrics['loss'].values.tolist())"
    assert desk.python(program).text == f"{record['loss']}\n", "the Python API joins the attempts too"
    rows = desk.holdfast("history", "metrics", "--name", "counted", "-o", "json").json
    assert [row["step"] for row in rows] == list(range(7))
    first, second = record["attempts"]
    assert (first["attempt"], first["status"], second["status"]) == (1, "Lost", "Completed")
    assert "killed" in first["reason"]
    assert first["start_time_utc"] < first["end_time_utc"] <= second["start_time_utc"] < second["end_time_utc"]
    assert (first["resumed_from"], second["resumed_from"]) == (None, 1)
    assert "outputs/checkpoints/last" in record["attachments"]
    assert (attempt.parent / "a2/outputs/checkpoints/last").read_text() == "4"
    card = desk.holdfast("info", "-o", "table").text
    assert "attempt 1  Lost, " in card
    assert "resumed from attempt 1" in card
    assert desk.holdfast("store", "verify").code == 0


def test_series_of_a_script_without_checkpoints_begin_again(desk: Desk, tmp_path: Path) -> None:
    desk.script(
        f"import holdfast, os, time\nholdfast.log('loss', 1.0)\nprint('waits', flush=True)\n"
        f"if not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(600)\n"
    )
    lose(desk)
    (tmp_path / "go").touch()
    assert desk.holdfast("retry", "-r", "1").code == 0
    record = desk.wait_for_end()
    assert (record["status"], record["loss"]) == ("Completed", 1.0)
    assert record["attempts"][1]["resumed_from"] is None


def test_folder_is_there_and_leaves_outputs_empty(desk: Desk) -> None:
    desk.script("import os\nassert os.listdir('outputs') == os.listdir(os.environ['HOLDFAST_CHECKPOINTS']) == []\n")
    assert desk.submit("train.py").code == 0
    assert list((desk.attempt() / "outputs").iterdir()) == []


def test_checkpoints_beside_a_folder_of_that_name_are_both_kept(desk: Desk) -> None:
    desk.script(
        "import os, pathlib\nos.mkdir('outputs/checkpoints')\n"
        "pathlib.Path('outputs/checkpoints/last').write_text('1')\n"
        "pathlib.Path(os.environ['HOLDFAST_CHECKPOINTS'], 'last').write_text('2')\n"
    )
    assert desk.submit("train.py").code == 0
    texts = {
        name: desk.holdfast("info", "-a", f"outputs/{name}/last").text for name in ("checkpoints", "checkpoints-1")
    }
    assert texts == {"checkpoints": "1", "checkpoints-1": "2"}


KILLED_ONCE = """
import holdfast, os, signal
last = os.path.join(os.environ["HOLDFAST_CHECKPOINTS"], "last")
first = int(open(last).read()) if os.path.exists(last) else 0
for step in range(first, 4):
    holdfast.log("loss", 10.0 - step, step=step)
    with open(last, "w") as target:
        target.write(str(step + 1))
    if step == 1 and first == 0:
        os.kill(os.getpid(), signal.SIGKILL)
print("resumed at", first)
"""


def test_retries_resume_a_script_that_was_killed(desk: Desk) -> None:
    desk.script(KILLED_ONCE)
    result = desk.submit("--retries", "1", "train.py")
    assert (result.code, "\nresumed at 2\n" in result.text) == (0, True), result
    assert "the run is restarted: killed by signal 9 (SIGKILL" in result.text
    record = desk.record()
    assert (record["status"], record["loss"]) == ("Completed", [10.0, 9.0, 8.0, 7.0])
    assert [row["status"] for row in record["attempts"]] == ["Failed", "Completed"]
    assert record["attempts"][1]["resumed_from"] == 1
    card = desk.holdfast("info", "-o", "table").text
    assert re.search(r"attempt 1 +Failed, .*: killed by signal 9 \(SIGKILL", " ".join(card.split())), card
    assert desk.holdfast("store", "verify").code == 0


def test_script_that_a_shell_saw_killed_is_restarted_too(desk: Desk) -> None:
    desk.script(KILLED_ONCE, "inner.py")
    desk.script(f"{sys.executable} inner.py\nexit $?\n", "train.sh")
    result = desk.submit("--retries", "1", "train.sh")
    assert (result.code, "\nresumed at 2\n" in result.text) == (0, True), result


def test_killed_script_is_restarted_only_as_often_as_asked(desk: Desk) -> None:
    desk.script("import os\nos.kill(os.getpid(), 9)\n")
    result = desk.submit("train.py")
    assert result.code == 137
    assert "holdfast retry -r 1 restarts it" in result.err
    assert desk.holdfast("status", "-r", "1").text.splitlines()[-1] == "hint : holdfast retry -r 1 restarts it"
    assert desk.holdfast("retry", "-r", "1").code == 0
    assert desk.wait_for_end()["exit_code"] == 137
    assert [row["exit_code"] for row in desk.record()["attempts"]] == [137, 137]
    assert desk.submit("--retries", "2", "train.py").code == 137
    assert len(desk.record()["attempts"]) == 3


@pytest.mark.parametrize("ending", ["timeout", "failure"])
def test_script_that_holdfast_killed_or_that_failed_is_not_restarted(desk: Desk, ending: str) -> None:
    ignore = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    desk.script(f"{ignore}time.sleep(600)\n" if ending == "timeout" else "raise SystemExit(1)\n")
    options = ("--timeout", "1", "--grace", "0.2") if ending == "timeout" else ()
    result = desk.submit(*options, "--retries", "2", "train.py")
    assert result.code == (124 if ending == "timeout" else 1)
    assert "restart" not in result.err
    assert desk.record()["attempts"][0]["attempt"] == 1
    assert len(desk.record()["attempts"]) == 1
    refused = desk.holdfast("retry", "-r", "1")
    assert refused.code == 2
    assert "only a run that is Lost, or whose script was killed (SIGKILL), can be restarted" in refused.err


def test_canceled_script_is_not_restarted(desk: Desk) -> None:
    desk.script(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    assert desk.submit("--no-wait", "--grace", "0.2", "--retries", "2", "train.py").code == 0
    attempt = desk.attempt()
    eventually(lambda: b"up" in (attempt / "log").read_bytes() if (attempt / "log").exists() else False)
    assert desk.holdfast("cancel", "-r", "1").code == 0
    assert desk.wait_for_end()["exit_code"] == 137
    assert "its state is Canceled" in desk.holdfast("retry", "-r", "1").err
