"""A target that accepts the login and sends nothing costs its own runs a few seconds, and other runs nothing."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from conftest import eventually
from ssh.test_links import STEADY, Watched

if TYPE_CHECKING:
    from pathlib import Path

    from chaosproxy import Proxy
    from conftest import Result
    from ssh.conftest import Laptop
    from sshlab import Host, User

SECONDS = 10.0  # no command that looks takes longer, on a loaded machine either
# Reads a FIFO that has no writer, as a file on a dead NFS server is read.
HANG = "cat /home/ada/fifo\n"


@pytest.fixture
def silent(attached: Laptop, ada: User) -> Laptop:
    """A run on lab1, whose login shell hangs from now on, and a run on this machine; each in its own project."""
    attached.script(STEADY)
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    eventually(lambda: attached.record()["status"] == "Running")
    ada.run("mkfifo", "fifo")
    ada.write(".bashrc", HANG)
    other = attached.project.parent / "other"
    other.mkdir()
    (other / "quick.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(300)\n")
    assert attached.holdfast("submit", "-c", "local", "--no-wait", "quick.py", cwd=other).code == 0
    return attached


def test_other_projects_are_not_delayed_by_a_silent_target(silent: Laptop) -> None:
    other = silent.project.parent / "other"
    for words in (("history", "list"), ("info",), ("logs",), ("status",), ("history", "tag", "kept"), ("cancel",)):
        result, took = _timed(silent, *words, cwd=other)
        assert result.code == 0, (words, result)
        assert "lab1" not in result.err
        assert took < 4.0, (words, took)


def test_runs_of_a_silent_target_are_shown_as_last_seen(silent: Laptop) -> None:
    result, took = _timed(silent, "history", "list", "--all", "-o", "json")
    assert result.code == 0, result
    assert took < SECONDS
    assert {record["target"]: record["status"] for record in result.json} == {"lab1": "Running", "local": "Running"}
    assert "lab1 is unreachable since 20" in result.err
    assert "SSH login succeeded, but the login shell did not start the runner" in result.err
    assert "shown as last seen" in result.err
    since = result.err.partition("since ")[2][:19]
    for words in (("info", "-o", "json"), ("logs",), ("status",)):
        result, took = _timed(silent, *words)
        assert result.code == 0, (words, result)
        assert f"unreachable since {since}" in result.err
        assert took < SECONDS, (words, took)
    result, took = _timed(silent, "history", "tag", "kept")
    assert (result.code, result.err.count("unreachable")) == (0, 0), result  # a tag needs no target


def test_no_login_is_denied_where_connections_are_not_shared(silent: Laptop) -> None:
    result, took = _timed(silent, "history", "list", env={"HOLDFAST_SSH_SHARED": "no"})
    assert (result.code, took < SECONDS) == (0, True), result
    assert "the target sent no answer within 5 s" in result.err
    assert "no SSH login was completed" not in result.err


def test_cancel_on_a_silent_target_is_recorded_and_delivered_later(silent: Laptop, ada: User) -> None:
    result, took = _timed(silent, "cancel")
    assert result.code == 69, result
    assert took < 2 * SECONDS  # the run is looked up first, and then asked to end
    assert "the request is recorded" in result.err
    ada.path(".bashrc").unlink()
    assert silent.wait_for_end()["status"] == "Canceled"


def test_started_run_without_events_is_preparing_and_then_to_be_canceled(silent: Laptop, ada: User) -> None:
    """As after submit --no-wait, when the target falls silent before its first event came here."""
    record = silent.record()
    assert record["target"] == "lab1"
    shutil.rmtree(silent.home / "runs" / record["uid"] / "a1")
    assert silent.record()["status"] == "Preparing"
    assert silent.holdfast("cancel").code == 69
    assert silent.record()["status"] == "CancelRequested"
    ada.path(".bashrc").unlink()
    assert silent.wait_for_end()["status"] == "Canceled"


def test_every_answer_ends_the_silence_that_is_told(silent: Laptop, ada: User) -> None:
    note = silent.home / "cache" / "silent" / "lab1"
    assert "unreachable since" in silent.holdfast("status").err
    assert note.exists()
    ada.path(".bashrc").unlink()
    assert silent.holdfast("computetarget", "test", "lab1").code == 0
    assert not note.exists()


def test_following_a_run_on_a_silent_target_keeps_trying(silent: Laptop, ada: User) -> None:
    client = Watched(silent.start("logs", "-f"))
    client.wait_for_words("lab1 is unreachable since", limit=60)
    ada.path(".bashrc").unlink()
    ada.run("touch", "enough")
    assert client.finish() == 0, client.err
    assert b"lines " in client.out


def test_submit_to_a_silent_target_tells_how_far_it_came(attached: Laptop, gpu1: Host) -> None:
    gpu1.configure(extra=["ForceCommand sleep 300"])
    attached.close_connections()
    attached.script("print(1)")
    result, took = _timed(attached, "submit", "-c", "lab1", "train.py")
    assert result.code == 69, result
    assert "SSH login succeeded, but the login shell did not start the runner within 30 s" in result.err
    assert ".bashrc" in result.err
    assert "python3" not in result.err.partition("ERROR")[2]
    assert took < 60
    result, took = _timed(attached, "history", "list", "-o", "json")
    assert (result.json, took < SECONDS) == ([], True)


@pytest.mark.parametrize(
    ("start_file", "shell", "answer"),
    [
        ("exit 0\n", "/bin/bash", "exit status 0"),
        ("echo the project disk is away; exit 3\n", "/bin/bash", "the project disk is away"),
        ("", "/usr/sbin/nologin", "not available"),
        ("", "/bin/false", "exit status 1"),
    ],
)
def test_login_shell_that_exits_is_not_told_as_missing_python(
    attached: Laptop, gpu1: Host, ada: User, start_file: str, shell: str, answer: str
) -> None:
    ada.write(".bashrc", start_file)
    gpu1.run("sed", "-i", rf"s#^\(ada:.*\):/bin/bash$#\1:{shell}#", "/etc/passwd")
    attached.close_connections()  # sshd remembers the shell of an open one
    attached.script("print(1)")
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 69, result
    assert "the login shell ended with exit status" in result.err
    assert answer in result.err
    assert "apt-get" not in result.err


@pytest.fixture
def far(laptop: Laptop, gpu1: Host, ada: User) -> Proxy:
    """The proxy through which a target named far is reached."""
    ada.authorize(laptop.client.key())
    proxy = laptop.client.proxy(gpu1)
    where = ("--name", "far", "--address", "far.lab", "--username", ada.name)
    accept = ("--accept-host-key", gpu1.fingerprint("ed25519"))
    assert laptop.holdfast("computetarget", "attach", "remote", *where, *accept).code == 0
    return proxy


def test_connection_cut_before_hello_is_told_as_a_broken_link(laptop: Laptop, far: Proxy) -> None:
    laptop.script("print(1)")
    for limit, polite in ((0, True), (30, False), (500, True), (1500, False), (3000, True), (4500, False)):
        far.set(cut_after_bytes=[limit, limit], polite=polite)
        laptop.close_connections()
        result = laptop.holdfast("submit", "-c", "far", "train.py")
        assert result.code == 69, (limit, result)
        for wrong in ("apt-get", "python3", "Python"):
            assert wrong not in result.err.partition("ERROR")[2], (limit, result)
    far.set(cut_after_bytes=None)
    assert laptop.holdfast("submit", "-c", "far", "train.py").code == 0


def test_revoked_key_ends_the_watching_after_three_tries(attached: Laptop, gpu1: Host, ada: User) -> None:
    keys = ada.path(".ssh/authorized_keys").read_text()
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    ada.write(".ssh/authorized_keys", "", 0o600)
    gpu1.log()
    attached.close_connections()
    assert client.finish() == 69, client.err
    assert "lab1 is unreachable since" in client.err
    assert "SSH authentication failed" in client.err
    assert "tried 3 times" in client.err
    assert "holdfast logs -f" in client.err
    assert attached.holdfast("history", "list", "-o", "json").json[0]["status"] == "Running"
    ada.write(".ssh/authorized_keys", keys, 0o600)
    ada.run("touch", "enough")
    assert attached.wait_for_end()["status"] == "Completed"


def test_connections_refused_by_a_busy_server_are_retried(laptop: Laptop, ada: User, far: Proxy) -> None:
    """A server at its MaxStartups hangs up before its banner: that is no reason to stop watching."""
    laptop.script(STEADY)
    client = Watched(laptop.start("submit", "-c", "far", "train.py"))
    client.wait_for(b"line 20\n")
    far.set(refuse=True)
    laptop.close_connections()
    client.wait_for_words("far is unreachable since")
    refused = far.stats().connections
    eventually(lambda: far.stats().connections > refused + 4)
    far.set(refuse=False)
    ada.run("touch", "enough")
    assert client.finish() == 0, client.err
    assert "is reachable again" in client.err


def _timed(
    laptop: Laptop, *words: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> tuple[Result, float]:
    began = time.monotonic()
    result = laptop.holdfast(*words, cwd=cwd, env=env or {})
    return result, time.monotonic() - began
