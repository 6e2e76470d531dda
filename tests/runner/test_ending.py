"""Every way a script can end, by itself or because it was asked to."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, Run, post_fixture  # noqa: F401

from conftest import alive, eventually

if TYPE_CHECKING:
    from pathlib import Path

# A child, and a grandchild that has left family and session, all deaf to SIGTERM; each writes its pid when it is deaf.
STUBBORN_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def note():
    with open(sys.argv[1], 'a') as pids: pids.write('%d\\n' % os.getpid())
def stay():
    note()
    time.sleep(600)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        stay()
    os._exit(0)
os.wait()
if os.fork() == 0:
    stay()
note()
"""


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_scripts_own_code_is_the_runs(post: Post, code: int) -> None:
    run = post.run(f"raise SystemExit({code})")
    closed = run.event("closed")
    assert closed["exit_code"] == run.event("exited")["code"] == code
    assert closed["outcome"] == ("failed" if code else "completed")
    assert closed["reason"] == (f"the script exited with code {code}" if code else "")
    assert (run.folder / "workspace").exists() == bool(code)


@ONCE
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, "invalid memory access"),
        (signal.SIGKILL, "when memory ran out"),
        (signal.SIGABRT, "aborted"),
        (signal.SIGTERM, "SIGTERM"),
        (37, "signal 37"),
    ],
)
def test_the_end_by_a_signal_is_told_in_words(post: Post, number: int, words: str) -> None:
    run = post.run(f"import os; os.kill(os.getpid(), {int(number)})")
    closed = run.event("closed")
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 128 + number)
    assert words in closed["reason"]
    assert str(int(number)) in closed["reason"]


def test_what_a_script_leaves_running_ends_with_it(post: Post, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"{STUBBORN_FAMILY}\nwhile len(open(sys.argv[1]).readlines()) < 3: time.sleep(0.005)"
    run = post.run(script, str(pids), grace=0.2)
    assert run.event("closed")["outcome"] == "completed"
    assert run.event("leftovers")["count"] == 2
    assert not any(alive(int(pid)) for pid in pids.read_text().split())
    assert run.processes() == []


def test_a_leftover_that_never_stops_talking_does_not_keep_the_run_open(post: Post) -> None:
    run = post.start(post.plan(("sh", "-c", "trap '' TERM; yes & exit 0"), grace=0.3))
    closed = run.wait(limit=20)
    assert closed["outcome"] == "completed"
    assert closed["files"]["log"][0] == (run.folder / "log").stat().st_size
    assert run.processes() == []


@ONCE
def test_waiting_for_silent_leftovers_costs_no_processor(post: Post) -> None:
    run = post.start(post.plan(("sh", "-c", "trap '' TERM; sleep 600 >/dev/null 2>&1 & exit 0"), grace=1.0))
    eventually(lambda: "leftovers" in run.types)
    supervisor = run.supervisor
    spent = 0.0
    while alive(supervisor):
        spent = max(spent, _processor_seconds(supervisor))
        time.sleep(0.01)
    assert run.wait()["outcome"] == "completed"
    assert spent < 0.5


def test_cancel_ends_the_whole_family_after_its_grace(post: Post, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    run = post.start(post.script(f"{STUBBORN_FAMILY}\ntime.sleep(600)", str(pids), grace=0.3))
    eventually(lambda: pids.exists() and pids.read_text().count("\n") == 3)
    assert post.stop(run) == "asked"
    closed = run.wait()
    assert (closed["outcome"], closed["exit_code"]) == ("canceled", 128 + signal.SIGKILL)
    assert not any(alive(int(pid)) for pid in pids.read_text().split())
    assert [kind for kind in run.types if kind in ("stopping", "killed")] == ["stopping", "killed"]
    waited = run.event("killed")["mono_ns"] - run.event("stopping")["mono_ns"]
    assert 0.3e9 <= waited < 5e9


def test_cancel_lets_a_script_save_its_work(post: Post) -> None:
    run = post.start(
        post.script(
            "import signal, sys, time\n"
            "def end(*_):\n"
            "    open('outputs/saved', 'w').write('all'); print('saved'); sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, end)\n"
            "print('ready')\n"
            "time.sleep(600)\n"
        )
    )
    run.wait_for_log(b"ready\n")
    post.stop(run)
    closed = run.wait()
    assert (closed["outcome"], closed["exit_code"]) == ("canceled", 143)
    assert "exited with code 0" in closed["reason"]
    assert run.log == b"ready\nsaved\n"
    assert list(run.outputs) == ["saved"]
    assert "killed" not in run.types
    assert post.stop(run) == "closed"


def test_a_stop_that_comes_first_wins_for_good(post: Post, tmp_path: Path) -> None:
    plan = post.plan(("sh", "-c", f"touch {tmp_path}/ran"))
    assert post.channel.ask("stop", uid=plan.uid, by="ada")["state"] == "ended"
    asked = {"plan": plan.to_json(), "secrets": {"env": {}, "on_end": ""}}
    assert post.channel.ask("start", **asked)["state"] == "already"
    ticket = f"{plan.uid}/a1"
    assert post.channel.ask("look", tickets=[ticket])["states"] == {ticket: "closed"}
    assert not (tmp_path / "ran").exists()


def test_a_stop_at_any_moment_after_the_start_cancels(post: Post) -> None:
    """Two conversations, so that the stop really can come before, during and after every step of the start."""
    other = post.connect()
    other.hello()
    for milliseconds in [*range(20), 25, 30, 40, 50]:
        run = post.start(post.plan(("sleep", "600")))
        time.sleep(milliseconds / 1000)
        assert other.ask("stop", uid=run.uid, by="ada")["state"] == "asked"
        closed = run.wait()
        assert (closed["outcome"], closed["exit_code"]) == ("canceled", 143), (milliseconds, closed)
        assert run.processes() == []


def test_a_signal_that_comes_with_the_first_event_is_heard(post: Post) -> None:
    for _ in range(5):
        plan = post.plan(("sleep", "600"))
        starting = threading.Thread(target=post.start, args=(plan, None, post.connect()))
        starting.start()
        run = Run(post, plan)
        first = run.folder / "events.jsonl"
        while not first.exists() or not first.read_bytes().endswith(b"\n"):
            pass  # every microsecond counts: the first event names a pid that must already listen
        os.kill(run.supervisor, signal.SIGTERM)
        starting.join()
        assert "stopped by signal 15" in run.wait()["reason"]
        assert run.processes() == []


def test_a_stop_between_start_and_script_means_that_the_script_never_runs(post: Post, tmp_path: Path) -> None:
    files = {b"%d" % number: b"takes a while to copy" for number in range(3000)}
    run = post.start(post.plan(("sh", "-c", f"touch {tmp_path}/ran"), files=files))
    assert post.stop(run) == "asked"
    closed = run.wait()
    assert (closed["outcome"], closed["exit_code"]) == ("canceled", 143)
    assert run.types == ["accepted", "closed"]
    assert not (tmp_path / "ran").exists()


def test_forking_process_tree_is_killed_completely(post: Post) -> None:
    forks = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for i in range(200):\n"
        "    if os.fork() == 0:\n"
        "        if i % 3 == 0: os.setsid()\n"
        "        if i % 2 == 0 and os.fork(): os._exit(0)\n"
        "        time.sleep(600)\n"
        "    if i == 20: print('forking')\n"
        "time.sleep(600)\n"
    )
    run = post.start(post.script(forks, grace=0.0))
    run.wait_for_log(b"forking\n")
    post.stop(run)
    assert run.wait()["outcome"] == "canceled"
    assert run.processes() == []


def test_a_timeout_is_told_as_one(post: Post) -> None:
    run = post.start(post.plan(("sleep", "600"), timeout=0.2, timeout_text="200ms"))
    closed = run.wait()
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 124)
    assert closed["reason"] == "timed out after 200ms"
    assert run.event("stopping")["mono_ns"] - run.event("accepted")["mono_ns"] >= 0.19e9


@ONCE
def test_a_script_that_ends_in_time_is_not_timed_out(post: Post) -> None:
    run = post.start(post.plan(("true",), timeout=60.0, timeout_text="1m"))
    assert run.wait()["outcome"] == "completed"


@ONCE
def test_a_runner_told_to_stop_by_the_system_says_so(post: Post) -> None:
    run = post.start(post.plan(("sh", "-c", "echo up; sleep 600")))
    run.wait_for_log(b"up\n")
    os.kill(run.supervisor, signal.SIGTERM)
    closed = run.wait()
    assert closed["outcome"] == "failed"
    assert "stopped by signal 15" in closed["reason"]
    assert run.processes() == []


def test_a_run_that_was_never_started_is_discarded_once(post: Post) -> None:
    uid = "d" * 32
    assert post.channel.ask("discard", uid=uid, reason="nobody came")["state"] == "closed"
    events = (post.home / "runs" / uid / "a1" / "events.jsonl").read_bytes()
    assert b"nobody came" in events
    assert post.channel.ask("discard", uid=uid, reason="again")["state"] == "closed"
    assert (post.home / "runs" / uid / "a1" / "events.jsonl").read_bytes() == events
    assert [path.name for path in (post.home / "runs" / uid).iterdir()] == ["a1"]


def test_a_run_that_lives_is_not_discarded(post: Post) -> None:
    run = post.start(post.plan(("sh", "-c", "echo up; sleep 600")))
    run.wait_for_log(b"up\n")
    assert post.channel.ask("discard", uid=run.uid, reason="a mistake")["state"] == "alive"
    assert post.look(run) == "alive"
    assert "closed" not in run.types


def _processor_seconds(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat") as source:
            fields = source.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
