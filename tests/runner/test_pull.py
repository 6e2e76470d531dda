"""A mirror on another machine: byte for byte what the target has, while it grows and whenever it is asked again."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, Run, mirror_differences, post_fixture, sha256, stop_both  # noqa: F401

from conftest import eventually
from holdfast.engine.runs.follow import Follower
from holdfast.errors import UnreachableError
from holdfast.runner.machine import processes
from holdfast.store import mirror, verify
from holdfast.store.runs import Run as StoredRun

if TYPE_CHECKING:
    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.store.home import Home

# Talks, logs and writes outputs in small and large pieces, and waits in the middle until it is let go.
BUSY = """
import os, holdfast
for i in range(400):
    os.write(1, b'x' * (i * 37 % 9000) + b'\\n')
    holdfast.log('loss', i / 2)
    if i % 50 == 0: holdfast.log('note', 'text %d' % i)
    if i == 200:
        print('half')
        open(os.environ['GATE']).read()
open('outputs/model', 'wb').write(os.urandom(1000))
"""


def test_the_mirror_grows_with_the_run_and_ends_equal(post: Post) -> None:
    run, gate = _busy(post)
    client = post.mirror()
    run.wait_for_log(b"half\n")
    assert post.follow(client, run, wait=False) == "alive"
    mirrored = Path(client.run(run.uid, "a1", "log")).read_bytes()
    assert mirrored.endswith(b"half\n")
    assert run.log.startswith(mirrored)
    gate.write_text("go")
    assert post.follow(client, run) == "closed"
    run.wait()
    assert mirror_differences(client, run) == []
    assert post.follow(client, run) == "closed"
    assert mirror_differences(client, run) == []


def test_the_mirror_resumes_from_any_length(post: Post) -> None:
    run, gate = _busy(post)
    gate.write_text("go")
    run.wait()
    dice = random.Random(10)
    for number in range(20):
        client = post.mirror(f"client-{number}")
        for name in ("log", "events.jsonl", "outputs.jsonl", *_metrics(run)):
            whole = (run.folder / name).read_bytes()
            part = Path(client.run(run.uid, "a1", name))
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(whole[: dice.randint(0, len(whole))])
        assert post.follow(client, run) == "closed"
        assert mirror_differences(client, run) == []


def test_the_mirror_holds_what_the_closing_event_promises(post: Post) -> None:
    """A script that says nothing has an empty log, and that is a promise too."""
    for text in ("pass", "print('x'); import holdfast; holdfast.log('a', 1)"):
        run = post.start(post.script(text))
        client = post.mirror()
        assert post.follow(client, run) == "closed"
        stored = StoredRun(run.uid, client.run(run.uid), {}, [], [])
        assert verify.differences(stored, run.event("closed")) == []


def test_the_closing_event_never_comes_before_what_it_speaks_of(post: Post) -> None:
    run = post.start(post.script("import os\nfor i in range(300): os.write(1, b'y' * 5000)"))
    log = b""
    sealed = None
    for header, payload in post.channel.stream("pull", uid=run.uid, have={}, carry=True, wait=True):
        if header.get("file") == "log":
            assert header["offset"] == len(log)
            log += payload
            assert sealed is None
        if header.get("file") == "events.jsonl" and b'"closed"' in payload:
            sealed = sha256(log)
    assert run.event("closed")["files"]["log"] == [1_500_000, sealed]
    late = post.channel.stream("pull", uid=run.uid, have={}, carry=True, wait=False)
    assert [header["file"] for header, _ in late if "file" in header][-1] == "events.jsonl"


def test_two_clients_fill_one_mirror(post: Post) -> None:
    run, gate = _busy(post)
    client = post.mirror()
    other = post.connect()
    threads = [threading.Thread(target=_mirror, args=(client, channel, run)) for channel in (post.channel, other)]
    for thread in threads:
        thread.start()
    run.wait_for_log(b"half\n")
    gate.write_text("go")
    for thread in threads:
        thread.join()
    assert mirror_differences(client, run) == []


CHURN = """
import os
folder = os.path.join(os.environ['RUN'], 'metrics')
open(os.path.join(folder, 'own.txt.0123456789abcdef.tmp'), 'w').write('half')
for i in range(4000):
    path = os.path.join(folder, 'passing%d' % (i % 50))
    open(path, 'w').write('x')
    if i % 3: os.unlink(path)
    else: os.remove(path); os.mkfifo(path); os.remove(path)
"""


def test_files_that_vanish_or_are_being_written_do_not_stop_the_mirror(post: Post) -> None:
    plan = post.script(CHURN)
    run = post.start(plan, {"RUN": str(post.place / "target/runs" / plan.uid / "a1")})
    client = post.mirror()
    assert post.follow(client, run) == "closed"
    assert run.wait()["outcome"] == "completed"
    names = os.listdir(client.run(run.uid, "a1", "metrics"))
    assert [name for name in names if name.endswith(".tmp")] == []


def test_a_piece_that_is_not_ours_or_not_whole_is_refused(post: Post) -> None:
    run = post.run("print('hello')")
    client = post.mirror()
    frames = list(post.channel.stream("pull", uid=run.uid, have={}, carry=True, wait=False))
    header, payload = next(frame for frame in frames if frame[0].get("file") == "log")
    for wrong in (
        {"offset": 3},
        {"file": "../../x"},
        {"file": "work/x"},
        {"file": "workspace/x"},
        {"sha256": "0" * 64},
        {"offset": None},
    ):
        with pytest.raises(UnreachableError):
            mirror.append(client, run.uid, "a1", {**header, **wrong}, payload, mirror.Quota(None, {}))
    mirror.append(client, run.uid, "a1", header, payload, mirror.Quota(None, {}))
    assert Path(client.run(run.uid, "a1", "log")).read_bytes() == b"hello\n"


def test_where_the_store_is_shared_only_sizes_are_told(post: Post) -> None:
    run = post.run("print('x' * 100)")
    frames = list(post.channel.stream("pull", uid=run.uid, have={}, carry=False, wait=True))
    assert [payload for _, payload in frames if payload] == []
    told: dict[str, int] = {}
    for header, _ in frames:
        sizes = header.get("sizes", {})
        assert isinstance(sizes, dict)
        told.update(sizes)
    assert told["log"] == 101
    assert frames[-1][0]["state"] == "closed"


def test_a_run_whose_watchers_die_while_it_is_watched_is_gone(post: Post) -> None:
    run, _ = _busy(post)
    run.wait_for_log(b"half\n")
    states = []
    thread = threading.Thread(target=lambda: states.append(post.follow(post.mirror(), run)))
    thread.start()
    stop_both(run)
    os.kill(run.guardian, signal.SIGKILL)
    os.kill(run.supervisor, signal.SIGKILL)
    thread.join()
    assert states == ["gone"]


def test_a_question_ends_the_watching(post: Post) -> None:
    run, _ = _busy(post)
    watching = post.channel.stream("pull", uid=run.uid, have={}, carry=True, wait=True)
    next(watching)
    assert post.look(run) == "alive"


@ONCE
def test_a_client_that_goes_away_while_watching_leaves_no_session(post: Post) -> None:
    run, gate = _busy(post)
    run.wait_for_log(b"half\n")  # from here on, the run itself starts and ends no process
    before = set(processes.descendants(os.getpid()))
    channel = post.connect()
    watching = channel.stream("pull", uid=run.uid, have={}, carry=True, wait=True)
    next(watching)
    session = set(processes.descendants(os.getpid())) - before
    assert session
    channel.close()
    post.forget(channel)
    eventually(lambda: not session & set(processes.descendants(os.getpid())))
    gate.write_text("go")
    assert run.wait()["outcome"] == "completed"


def _busy(post: Post) -> tuple[Run, Path]:
    gate = post.place / "gate"
    os.mkfifo(gate)
    return post.start(post.script(BUSY), {"GATE": str(gate)}), gate


def _metrics(run: Run) -> list[str]:
    return [f"metrics/{path.name}" for path in (run.folder / "metrics").iterdir()]


def _mirror(client: Home, channel: RunnerChannel, run: Run) -> None:
    Follower(client, run.uid, lambda block: None).follow(channel)
