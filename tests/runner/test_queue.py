"""An attempt that another program starts later, under the oldest and the newest Python."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from runner_post import ONCE, Post, Run, post_fixture  # noqa: F401

from conftest import alive, eventually
from holdfast.runner.store import jsonl

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2-this-is-secret"
SECRETS = {"env": {"TOKEN": SECRET}, "on_end": ""}


def test_a_job_starts_the_attempt_and_stays_until_its_end(post: Post, tmp_path: Path) -> None:
    run, job = _queue(post, tmp_path, "import os, sys\nprint(os.environ['TOKEN'][::-1])\nsys.exit(3)\n")
    assert post.look(run) == "queued"
    assert subprocess.run(["sh", str(job)], check=False, timeout=60).returncode == 0
    assert run.event("closed")["exit_code"] == 3
    assert SECRET[::-1].encode() in run.log
    eventually(lambda: not alive(run.guardian))
    assert not (run.folder / "secrets").exists()
    assert not (run.folder / "waiting").exists()


@ONCE
def test_a_job_of_a_canceled_attempt_starts_nothing(post: Post, tmp_path: Path) -> None:
    run, job = _queue(post, tmp_path, "print('never')")
    assert post.stop(run) == "ended"
    done = subprocess.run(["sh", str(job)], check=False, timeout=60, capture_output=True, text=True)
    assert "not started" in done.stderr
    assert (run.types, run.event("closed")["outcome"]) == (["closed"], "canceled")
    assert not (run.folder / "log").exists()


@ONCE
def test_sigterm_to_a_job_cancels_its_run(post: Post, tmp_path: Path) -> None:
    run, job = _queue(post, tmp_path, "import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    process = subprocess.Popen(["sh", str(job)], start_new_session=True)
    try:
        eventually(lambda: (run.folder / "log").exists() and b"up" in run.log)
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        eventually(lambda: bool(_read(children)))
        for pid in _read(children).split():
            os.kill(int(pid), 15)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert run.event("closed")["outcome"] == "canceled"
    assert run.event("stopping")["why"] == "canceled"


@ONCE
def test_a_queue_that_refuses_is_told_with_its_words_and_keeps_no_secrets(post: Post) -> None:
    plan = post.script("print(1)")
    refusing = ["sh", "-c", "cat > /dev/null; echo 'no such partition' >&2; exit 1"]
    answer = post.channel.ask("queue", plan=plan.to_json(), secrets=SECRETS, argv=refusing)
    assert answer["state"] == "refused"
    assert "no such partition" in str(answer["refused"])
    run = Run(post, plan)
    assert not (run.folder / "secrets").exists()
    assert post.channel.ask("discard", uid=run.uid, attempt="a1", reason="refused")["state"] == "closed"


@ONCE
def test_a_queue_command_that_is_missing_is_named(post: Post) -> None:
    answer = post.channel.ask("command", argv=["/no/such/queue"])
    assert answer["code"] == 127
    assert "/no/such/queue" in str(answer["err"])


@ONCE
def test_a_job_that_ended_on_another_node_is_closed_by_its_launcher_word(post: Post, tmp_path: Path) -> None:
    run, _ = _queue(post, tmp_path, "print('never')")
    (run.folder / "waiting").unlink()
    mark: dict[str, object] = {"host": "othernode", "machine": "f" * 32, "boot_id": "another boot"}
    (run.folder / "alive").write_bytes(jsonl.sealed(mark))
    assert post.look(run) == "elsewhere"
    assert post.bury(run) == "elsewhere"
    assert post.channel.ask("bury", uid=run.uid, gone=True)["state"] == "closed"
    closed = run.event("closed")
    assert closed["outcome"] == "lost"
    assert "othernode" in closed["reason"]


def _queue(post: Post, place: Path, text: str) -> tuple[Run, Path]:
    job, plan = place / "job", post.script(text)
    argv = ["sh", "-c", f"cat > {job}; echo 17"]
    answer = post.channel.ask("queue", plan=plan.to_json(), secrets=SECRETS, argv=argv)
    assert (answer["state"], answer["job"]) == ("queued", "17")
    run = Run(post, plan)
    post.runs.append(run)
    return run, job


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as source:
            return source.read()
    except OSError:
        return ""
