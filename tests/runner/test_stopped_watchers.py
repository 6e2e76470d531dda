"""A script that stops its watchers (SIGSTOP) is ended in time all the same, and the reason says how."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from runner_post import ONCE, Post, Run, post_fixture, stop_both  # noqa: F401

from conftest import alive, eventually
from holdfast.runner.machine import processes

# Stops its watchers once, or as fast as it can, from a process of its own; a daemon in another session stays behind.
HOSTILE = """
import os, signal, sys, time
supervisor = os.getppid()
guardian = int(open('/proc/%d/stat' % supervisor).read().rpartition(')')[2].split()[1])
victims = {'supervisor': [supervisor], 'guardian': [guardian], 'both': [guardian, supervisor]}[sys.argv[1]]
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[3:] == ['deaf'] else signal.SIG_DFL)
def stop():
    for pid in victims:
        try: os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError: pass
if os.fork() == 0:
    os.setsid()
    open('up', 'w').close()
    while True:
        stop()
        if sys.argv[2] == 'once': time.sleep(600)
time.sleep(600)
"""
once_or_in_a_loop = pytest.mark.parametrize("often", ["once", "loop"])


@ONCE
@once_or_in_a_loop
@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_timeout_ends_a_run_whose_script_stops_one_watcher(post: Post, victim: str, often: str) -> None:
    run = post.start(post.script(HOSTILE, victim, often, timeout=1.0, timeout_text="1s", grace=0.5))
    closed = _wait(run, limit=60)
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 124), closed
    assert "timed out after 1s" in closed["reason"]
    lasted = closed["mono_ns"] - run.event("started")["mono_ns"]
    assert lasted < 45e9


@ONCE
@once_or_in_a_loop
@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_cancel_ends_a_run_whose_script_stops_one_watcher(post: Post, victim: str, often: str) -> None:
    run = post.start(post.script(HOSTILE, victim, often, grace=0.5))
    eventually((run.folder / "workspace/above/work" / "up").exists)
    assert post.stop(run) == "asked"
    closed = _wait(run, limit=60)
    assert closed["outcome"] == "canceled", closed


@ONCE
def test_script_that_is_deaf_and_stops_its_supervisor_is_killed_after_its_grace(post: Post) -> None:
    run = post.start(post.script(HOSTILE, "supervisor", "loop", "deaf", timeout=0.5, timeout_text="500ms", grace=1.0))
    closed = _wait(run, limit=60)
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 124), closed
    assert run.event("stopping")["why"] == "timeout"


@ONCE
@pytest.mark.parametrize("stopped_before_cancel", [True, False])
def test_next_look_ends_a_run_whose_watchers_are_both_stopped(post: Post, stopped_before_cancel: bool) -> None:
    run = post.start(post.script(HOSTILE, "both", "loop", grace=20.0))
    eventually((run.folder / "workspace/above/work" / "up").exists)
    if stopped_before_cancel:
        eventually(lambda: processes.is_stopped(run.guardian) and processes.is_stopped(run.supervisor))
    eventually(lambda: post.stop(run) in ("ended", "closed"), 20)
    closed = _wait(run, limit=60)
    assert closed["outcome"] == "canceled", closed


@ONCE
def test_run_with_both_watchers_stopped_is_told_as_such(post: Post) -> None:
    run = post.start(post.script("import time\nprint('up', flush=True)\ntime.sleep(600)"))
    run.wait_for_log(b"up\n")
    stop_both(run)
    assert post.look(run) == "closed"
    closed = _wait(run, limit=60)
    assert (closed["outcome"], closed["exit_code"]) == ("lost", 125)
    assert "supervisor and guardian were both stopped" in closed["reason"]


@ONCE
def test_client_that_follows_ends_a_run_whose_watchers_are_both_stopped(post: Post) -> None:
    run = post.start(post.script(HOSTILE, "both", "once", timeout=1.0, timeout_text="1s", grace=0.5))
    assert post.follow(post.mirror(), run) == "closed"
    closed = _wait(run, limit=60)
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 124), closed
    assert "both stopped" in closed["reason"]


@ONCE
def test_stopped_guardian_with_a_killed_supervisor_is_not_alive_for_ever(post: Post) -> None:
    run = post.start(post.script("import time\nprint('up', flush=True)\ntime.sleep(600)"))
    run.wait_for_log(b"up\n")
    stop_both(run)
    os.kill(run.supervisor, signal.SIGKILL)
    eventually(lambda: not alive(run.supervisor))
    assert post.look(run) == "closed"
    assert _wait(run, limit=60)["outcome"] == "lost"


@ONCE
@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_watcher_that_was_stopped_by_mistake_goes_on(post: Post, victim: str) -> None:
    run = post.start(
        post.script("import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)")
    )
    run.wait_for_log(b"up\n")
    os.kill(getattr(run, victim), signal.SIGSTOP)
    eventually(lambda: not processes.is_stopped(getattr(run, victim)), 10)
    (run.folder / "workspace/above/work" / "go").touch()
    assert run.wait()["outcome"] == "completed"


@ONCE
def test_watching_each_other_costs_next_to_nothing(post: Post) -> None:
    run = post.start(post.plan(("sleep", "600")))
    eventually(lambda: "started" in run.types)
    before = [_processor_ticks(pid) for pid in (run.supervisor, run.guardian)]
    time.sleep(4)
    after = [_processor_ticks(pid) for pid in (run.supervisor, run.guardian)]
    spent = [(late - early) / os.sysconf("SC_CLK_TCK") for early, late in zip(before, after, strict=True)]
    assert max(spent) < 0.1, spent  # 2.5 % at most, with a clock of 10 ms


def _wait(run: Run, limit: float) -> dict[str, Any]:
    """Without a client that looks: the watchers alone must end it."""
    eventually(lambda: "closed" in run.types, limit)
    eventually(lambda: not alive(run.guardian) and not alive(run.supervisor), limit)
    assert run.processes() == []
    assert run.types.count("closed") == 1
    return run.event("closed")


def _processor_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as source:
        fields = source.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
