"""Supervisor and guardian watch each other: after a kill of either the outcome is right and no process is left."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest
from runner_post import ONCE, Post, Run, post_fixture, stop_both  # noqa: F401

from conftest import alive, eventually

BEFORE = {"boot_id": "another boot"}

# A script with a grandchild in a session of its own, which no parent-death signal reaches.
FAMILY = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        print('up')\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "time.sleep(600)\n"
)


@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_one_killed_watcher_is_noticed_by_the_other(post: Post, victim: str) -> None:
    run = _family(post)
    os.kill(getattr(run, victim), signal.SIGKILL)
    eventually(lambda: not alive(run.supervisor) and not alive(run.guardian))
    closed = run.event("closed")
    assert (closed["outcome"], closed["exit_code"]) == ("lost", 125)
    assert victim in closed["reason"]
    assert run.processes() == []
    assert post.look(run) == "closed"
    assert run.types.count("closed") == 1
    assert _sequence(run) == list(range(len(run.events)))


def test_a_guardian_killed_before_the_script_runs_is_noticed_too(post: Post) -> None:
    files = {b"%d" % number: b"takes a while to copy" for number in range(3000)}
    run = post.start(post.plan(("sleep", "600"), files=files))
    os.kill(run.guardian, signal.SIGKILL)
    eventually(lambda: not alive(run.supervisor))
    assert run.event("closed")["outcome"] == "lost"
    assert run.processes() == []


def test_with_both_gone_the_next_to_look_buries_the_run_once(post: Post) -> None:
    run = _family(post)
    _kill_both(run)
    eventually(lambda: post.look(run) == "gone")
    assert run.processes()
    assert "closed" not in run.types
    channels = [post.connect() for _ in range(10)]
    for channel in channels:
        channel.hello()
    states = []
    gate = threading.Barrier(len(channels))

    def bury(index: int) -> None:
        gate.wait()
        states.append(str(channels[index].ask("bury", uid=run.uid)["state"]))

    threads = [threading.Thread(target=bury, args=(index,)) for index in range(len(channels))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states == ["closed"] * 10
    assert run.types.count("closed") == 1
    closed = run.event("closed")
    assert closed["outcome"] == "lost"
    assert "of its processes were still there" in closed["reason"]
    assert run.processes() == []


def test_closing_is_not_delayed_by_a_status_check(post: Post) -> None:
    """Looking takes the lock for a moment; a burier that meets it must come again, not go home."""
    run = _family(post)
    _kill_both(run)
    done = threading.Event()
    watcher = post.connect()
    ticket = f"{run.uid}/a1"

    def look() -> None:
        while not done.is_set():
            watcher.ask("look", tickets=[ticket])

    watcher.hello()
    thread = threading.Thread(target=look)
    thread.start()
    try:
        assert post.bury(run) == "closed"
    finally:
        done.set()
        thread.join()


def test_stop_of_a_run_whose_watchers_are_gone_buries_it(post: Post) -> None:
    run = _family(post)
    _kill_both(run)
    eventually(lambda: post.look(run) == "gone")
    assert post.stop(run) == "closed"
    assert run.processes() == []


def test_a_stopped_supervisor_is_alive_and_not_buried(post: Post) -> None:
    run = _family(post)
    os.kill(run.supervisor, signal.SIGSTOP)
    assert post.look(run) == "alive"
    assert post.bury(run) == "alive"
    assert post.stop(run) == "asked"
    assert run.wait()["outcome"] == "canceled"


@ONCE
def test_a_run_from_before_a_restart_is_told_as_such(post: Post) -> None:
    run = _family(post)
    _kill_both(run)
    for pid in run.processes():
        os.kill(pid, signal.SIGKILL)
    lines = [json.dumps({**event, **BEFORE, "v": 1, "crc": ""}) + "\n" for event in run.events]
    (run.folder / "events.jsonl").write_text("".join(lines))
    (run.folder / "alive").write_text(json.dumps({**json.loads((run.folder / "alive").read_text()), **BEFORE}))
    os.utime(run.folder / "alive", (0, 0))  # no sign of life since this machine was booted
    assert post.bury(run) == "closed"
    assert "rebooted at 20" in run.event("closed")["reason"]


@ONCE
@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_costs_that_line_and_no_other(post: Post, cut: int) -> None:
    run = _family(post)
    _kill_both(run)
    events = run.folder / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)[:2]  # that of the packages may follow
    events.write_bytes(b"".join(lines)[:-cut])
    assert post.bury(run) == "closed"
    whole = [json.loads(line) for line in events.read_bytes().splitlines() if _is_json(line)]
    assert [event["type"] for event in whole] == ["accepted", *(["started"] if cut == 1 else []), "closed"]
    assert [event["seq"] for event in whole] == list(range(len(whole)))


@ONCE
def test_a_closing_line_that_lacks_its_end_is_not_written_twice(post: Post) -> None:
    run = post.run("print(1)")
    events = run.folder / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-1])
    assert post.bury(run) == "closed"
    assert run.types.count("closed") == 1
    assert run.event("closed")["outcome"] == "completed"


def test_events_are_numbered_and_clocked(post: Post) -> None:
    run = post.run("print(1)")
    assert _sequence(run) == list(range(len(run.events)))
    clock = [event["mono_ns"] for event in run.events]
    assert clock == sorted(clock)
    assert {event["v"] for event in run.events} == {2}
    assert len({event["boot_id"] for event in run.events}) == 1
    accepted = run.events[0]
    assert accepted["type"] == "accepted"
    assert {"host", "pid", "start_time", "pgid", "guardian"} <= set(accepted)


def _family(post: Post) -> Run:
    run = post.start(post.script(FAMILY))
    run.wait_for_log(b"up\n")
    return run


def _kill_both(run: Run) -> None:
    """Both are stopped first, so that neither can notice the other's end."""
    stop_both(run)
    os.kill(run.guardian, signal.SIGKILL)
    os.kill(run.supervisor, signal.SIGKILL)
    eventually(lambda: not alive(run.supervisor) and not alive(run.guardian))


def _sequence(run: Run) -> list[int]:
    return [event["seq"] for event in run.events]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
