"""Starting once, and what the script finds around it."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, Run, post_fixture, sha256  # noqa: F401

from conftest import eventually
from holdfast.errors import ResourceError, RunnerError, StoreError
from holdfast.runner.run import script_process

if TYPE_CHECKING:
    from pathlib import Path

OURS = {
    "PYTHONUNBUFFERED",
    "PYTHONPATH",
    "HOLDFAST_RUN_ID",
    "HOLDFAST_RUN_UID",
    "HOLDFAST_METRICS_DIR",
    "HOLDFAST_CHECKPOINTS",
    "HOLDFAST_OUTPUTS",
    "AZUREML_RUN_ID",
}
LIBC_ONLY = 0b11 << 31  # signals 32 and 33 belong to the threads of libc
# What is not UTF-8, what a shell would eat, and what Python 3.6 cannot say in the C locale.
NASTY = b"caf\xe9 \xff\xc3\xa9 '\"$(id);\n-"


def test_a_start_that_is_asked_for_twice_happens_once(post: Post, tmp_path: Path) -> None:
    plan = post.plan(("sh", "-c", f"echo started >> {tmp_path}/starts"))
    asked = {"plan": plan.to_json(), "secrets": {"env": {}, "on_end": ""}}
    run = post.start(plan)
    assert post.channel.ask("start", **asked)["state"] == "already"
    assert post.connect().ask("start", **asked)["state"] == "already"
    run.wait()
    assert post.channel.ask("start", **asked)["state"] == "already"
    assert (tmp_path / "starts").read_text() == "started\n"
    assert [path.name for path in run.folder.parent.iterdir()] == ["a1"]


def test_clients_that_start_the_same_run_at_once_start_it_once(post: Post, tmp_path: Path) -> None:
    plan = post.plan(("sh", "-c", f"echo started >> {tmp_path}/starts"))
    channels = [post.connect() for _ in range(4)]
    for channel in channels:
        channel.hello()
    states = []
    gate = threading.Barrier(len(channels))

    def start(index: int) -> None:
        gate.wait()
        asked = {"plan": plan.to_json(), "secrets": {"env": {}, "on_end": ""}}
        states.append(channels[index].ask("start", **asked)["state"])

    threads = [threading.Thread(target=start, args=(index,)) for index in range(len(channels))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, states)) == ["already"] * 3 + ["started"]
    post.start(plan).wait()
    assert (tmp_path / "starts").read_text() == "started\n"


def test_a_claim_that_fails_for_another_reason_is_no_start(post: Post) -> None:
    plan = post.plan(("true",))
    in_the_way = post.home / "runs" / plan.uid
    in_the_way.mkdir(parents=True)
    (in_the_way / "a1").write_text("a file where the attempt must be")
    with pytest.raises(StoreError):
        post.channel.ask("start", plan=plan.to_json(), secrets={"env": {}, "on_end": ""})


def test_the_script_finds_the_documented_variables_and_no_others(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("LC_TIME", "C")
    share = str(post.place / "share")
    run = post.run("import json, os; print(json.dumps(dict(os.environ)))", env={"LR": "0.1"}, share=share)
    found = json.loads(run.log)
    found.pop("LC_CTYPE", None)  # Python's own doing where there is no locale
    inherited = {name for name in os.environ if name in script_process.INHERITED or name.startswith("LC_")}
    assert set(found) == OURS | inherited | {"LR", "AZUREML_NATIVE_SHARE_DIRECTORY"}
    assert found["LR"] == "0.1"
    assert found["AZUREML_NATIVE_SHARE_DIRECTORY"] == share + "/"
    assert os.path.isdir(share)


def test_values_of_variables_are_written_nowhere(post: Post) -> None:
    run = post.run("import os; assert os.environ['TOKEN']", env={"TOKEN": "hush-hush-7261"})
    assert run.event("closed")["outcome"] == "completed"
    tainted = [
        os.path.join(folder, name)
        for folder, _, files in os.walk(post.home)
        for name in files
        if b"hush-hush-7261" in (post.place / folder / name).read_bytes()
    ]
    assert tainted == []


def test_any_bytes_pass_in_the_c_locale(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.delenv("PYTHONUTF8", raising=False)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    nasty = os.fsdecode(NASTY)
    post.home = post.place / f"target-{nasty}"
    script = (
        "import os, sys\n"
        "name = os.fsencode(sys.argv[1])\n"
        "assert os.environb[b'VALUE'] == name, os.environb\n"
        "with open(b'data/' + name, 'rb') as source: content = source.read()\n"
        "with open(b'outputs/' + name, 'wb') as target: target.write(content)\n"
        "os.write(1, name + content)\n"
    )
    run = post.run(script, nasty, env={"VALUE": nasty}, files={b"data/" + NASTY: b"\0\xff"})
    assert run.event("closed")["reason"] == ""
    assert run.log == NASTY + b"\0\xff"
    assert list(run.outputs) == [nasty]
    assert run.outputs[nasty]["sha256"] == sha256(b"\0\xff")
    with open(os.path.join(os.fsencode(run.folder), b"outputs", NASTY), "rb") as kept:
        assert kept.read() == b"\0\xff"


def test_a_folder_with_any_name_is_linked_in(post: Post) -> None:
    nasty = os.fsdecode(NASTY)
    (post.place / nasty).mkdir()
    (post.place / nasty / "x").write_text("linked")
    run = post.run(f"print(open({'d/x'!r}).read())", links={"d": str(post.place / nasty)})
    assert run.log == b"linked\n"


def test_stdin_is_empty_and_only_the_three_streams_are_open(post: Post) -> None:
    run = post.run(
        "import os, sys\n"
        "listing = os.open('/proc/self/fd', os.O_RDONLY)\n"
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))\n"
        "print(listing, os.readlink('/proc/self/fd/0'), repr(sys.stdin.read()))\n"
        "print(os.fstat(1).st_ino == os.fstat(2).st_ino)\n"
    )
    assert run.log == b"[0, 1, 2, 3]\n3 /dev/null ''\nTrue\n"


def test_no_signal_is_ignored_or_blocked(post: Post) -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as shells do for what they start with &
    try:
        run = post.start(post.plan(("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")))
    finally:
        signal.signal(signal.SIGQUIT, before)
    run.wait()
    blocked, ignored = (int(line.split()[1], 16) for line in run.log.splitlines())
    assert blocked == 0
    assert ignored & ~LIBC_ONLY == 0


def test_the_callers_umask_is_the_scripts_and_not_ours(post: Post) -> None:
    before = os.umask(0o027)
    try:
        run = post.run("import os; open('outputs/x', 'w').close(); print(oct(os.umask(0)))")
    finally:
        os.umask(before)
    assert run.log == b"0o27\n"
    assert os.stat(run.folder / "outputs" / "x").st_mode & 0o777 == 0o640
    assert os.stat(run.folder).st_mode & 0o777 == 0o700
    assert os.stat(run.folder / "log").st_mode & 0o777 == 0o600


def test_the_script_has_a_copy_of_its_own_in_a_session_of_its_own(post: Post) -> None:
    run = post.run(
        "import os, sys\n"
        "open('train.py', 'a').write('# scribbled')\n"
        "print(os.getcwd() == os.path.dirname(os.path.abspath(__file__)), sys.path[0] == os.getcwd())\n"
        "print(os.getsid(0) == os.getpid(), os.path.isdir('outputs'))\n"
    )
    assert run.log == b"True True\nTrue True\n"
    again = post.start(run.plan._replace(uid="f" * 32))
    again.wait()
    assert again.log == run.log


@ONCE
def test_metrics_reach_the_run_without_holdfast_being_installed(post: Post) -> None:
    run = post.run("import holdfast\nfor i in range(3): holdfast.log('loss', i / 2)")
    sealed = run.event("closed")["files"]
    assert sorted(name.rpartition(".")[2] for name in sealed if name.startswith("metrics/")) == ["json", "jsonl", "m"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("/no/such/program",), "/no/such/program"),
        (("/etc/passwd",), "it is not executable"),
        (("x" * 300,), "File name too long"),
        (("sh", "a\0b"), "null byte"),
    ],
)
@ONCE
def test_a_command_that_cannot_start_is_told_in_words(post: Post, argv: tuple[str, ...], words: str) -> None:
    closed = post.start(post.plan(argv)).wait()
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 127)
    assert words in closed["reason"]


@ONCE
def test_damaged_content_is_never_run(post: Post, tmp_path: Path) -> None:
    plan = post.script(f"open({str(tmp_path / 'ran')!r}, 'w')", files={b"data": b"good"})
    digest = sha256(b"good")
    stored = post.home / "objects" / digest[:2] / digest[2:]
    stored.chmod(0o600)
    stored.write_bytes(b"evil")
    closed = post.start(plan).wait()
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 74)
    assert "data" in closed["reason"]
    assert not (tmp_path / "ran").exists()


@ONCE
def test_started_run_does_not_need_the_client(post: Post) -> None:
    gate = post.place / "gate"
    os.mkfifo(gate)
    channel = post.connect()
    run = post.start(post.plan(("sh", "-c", f"cat {gate}")), channel=channel)
    session = os.getsid(run.supervisor)
    assert session != os.getsid(0)
    channel.close()
    post.forget(channel)
    gate.write_text("still here")
    run.wait()
    eventually(lambda: run.log == b"still here")


@ONCE
def test_start_that_fails_for_want_of_descriptors_leaves_nothing_to_start_later(post: Post, tmp_path: Path) -> None:
    plan = post.plan(("sh", "-c", f"echo started >> {tmp_path}/starts"))
    states = set()
    for most in range(4, 12):
        channel = post.connect()
        channel.hello()
        plan = plan._replace(uid=os.urandom(16).hex())
        if sys.platform == "linux":
            resource.prlimit(channel._transport.pid, resource.RLIMIT_NOFILE, (most, most))
        try:
            channel.ask("start", plan=plan.to_json(), secrets={"env": {}, "on_end": ""})
        except (StoreError, ResourceError, RunnerError):
            pass
        channel.close()
        run = Run(post, plan)
        asked = {"uid": plan.uid, "attempt": "a1"}
        state = post.channel.ask("discard", reason="the submit failed", **asked)["state"]
        states.add(state)
        assert state in ("closed", "alive"), most
        run.wait_for_end()
    assert "closed" in states
