"""A target whose runner answers its hello and then nothing: every command ends soon, with the cause and code 69."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import Result, eventually
from ssh.test_links import Watched

if TYPE_CHECKING:
    from ssh.conftest import Laptop
    from sshlab import Host

SECONDS = 30.0  # for 15 s of waiting, on a machine that runs all these commands at once
QUESTIONS = ("gpu", "images", "pull", "return", "test")
NEVER = 1_000_000
SAVING = "import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/a.bin', 'w').write('a' * 100)\n"
DOCKER = """#!/bin/sh
case "$*" in
info*) echo '{"ServerVersion":"27.0","SecurityOptions":[],"Runtimes":{},"CDISpecDirs":[]}' ;;
version*) echo 27.0 ;;
load*) cat >/dev/null; sleep 20; echo 'Loaded image: lab:1' ;;
esac
"""


@pytest.fixture
def muted(attached: Laptop, gpu1: Host) -> Laptop:
    """A run that has ended on lab1 with an output that is not here yet, and one that goes on."""
    replace_python(gpu1)
    gpu1.program("/usr/local/bin/docker", DOCKER)
    attached.script(SAVING, "saving.py")
    (attached.project / "aml_config" / "lab1.runconfig").write_text(
        "Target: lab1\nFramework: Python\nfetchOutputs: none\n"
    )
    assert attached.holdfast("submit", "-c", "lab1", "saving.py").code == 0
    attached.script("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    eventually(lambda: attached.record()["status"] == "Running")
    return attached


def replace_python(host: Host) -> None:
    """By the program in muted_python.py."""
    real = host.run("readlink", "-f", "/usr/bin/python3").stdout.strip()
    text = (Path(__file__).parent / "muted_python.py").read_text().replace("/usr/bin/python3.real", real)
    host.program("/usr/bin/python3", text)


def mute(host: Host, **frames: int) -> None:
    """How many frames each verb is answered with; others get none, unless ``others`` says so."""
    counts = {"*": frames.pop("others", 0), **frames}
    host.path("/var/tmp/mute").write_text("".join(f"{verb} {count}\n" for verb, count in counts.items()))


def archive(laptop: Laptop) -> str:
    path = laptop.project.parent / "image.tar"
    with tarfile.open(path, "w") as target:
        entry = tarfile.TarInfo("layer")
        entry.size = 20_000_000
        target.addfile(entry, io.BytesIO(bytes(entry.size)))
    return str(path)


def test_every_command_ends_when_the_runner_says_nothing_after_its_hello(muted: Laptop, gpu1: Host) -> None:
    mute(gpu1, exec=1, load=1)  # in these the first frame says that the work began
    commands = {
        "exec": ("exec", "-r", "2", "--", "sleep", "600"),
        "import": ("image", "import", "-c", "lab1", archive(muted)),
        "export": ("image", "export", "-c", "lab1", "debian:12", str(muted.project.parent / "out.tar")),
        "images": ("image", "list", "-c", "lab1"),
        "gpu": ("gpu", "-c", "lab1", "-o", "json"),
        "clean": ("experiment", "clean", "-c", "lab1", "--yes"),
        "pull": ("history", "pull", "-c", "lab1"),
        "return": ("experiment", "return", "-r", "1"),
        "test": ("computetarget", "test", "lab1"),
        "purge": ("computetarget", "detach", "lab1", "--purge", "--yes"),
        "cancel": ("cancel", "-r", "2"),
    }
    outcomes = _all_at_once(muted, commands)
    for name, (result, seconds) in outcomes.items():
        assert result.code == 69, (name, result)
        assert seconds < SECONDS, (name, seconds, result)
        shown = result.text + result.err
        expected = "connected, and no answer to the request" if name in QUESTIONS else "sent nothing for"
        assert ("the request is recorded" if name == "cancel" else expected) in shown, (name, result)
        assert "Traceback" not in shown
        for wrong in ("apt-get", "python3", "login"):
            assert wrong not in result.err.partition("ERROR")[2], (name, result)
    mute(gpu1, others=NEVER)
    assert muted.wait_for_end("2")["status"] == "Canceled"


def test_looking_shells_and_attaching_end_too_when_the_runner_says_nothing(muted: Laptop, gpu1: Host) -> None:
    mute(gpu1)
    accept = ("--accept-host-key", gpu1.fingerprint("ed25519"))
    outcomes = _all_at_once(
        muted,
        {
            "runs": ("runs",),
            "info": ("info", "-r", "2"),
            "logs": ("logs", "-r", "2"),
            "retry": ("retry", "-r", "2"),
            "ssh": ("ssh", "-r", "2"),
            "attach": ("attach", "ada@gpu1.lab", "--name", "again", *accept),
        },
    )
    codes = {name: result.code for name, (result, _) in outcomes.items()}
    assert codes == {"runs": 0, "info": 0, "logs": 0, "retry": 2, "ssh": 0, "attach": 69}, outcomes
    for name in ("runs", "info", "logs", "retry"):
        result, seconds = outcomes[name]
        assert seconds < 15, (name, seconds)
        assert "its runs are shown as last seen" in result.err, (name, result)
    result, seconds = outcomes["attach"]
    assert (seconds < SECONDS, "sent nothing for" in result.err) == (True, True), (seconds, result)


def test_submit_says_that_the_target_does_not_answer_and_goes_on_when_it_does(muted: Laptop, gpu1: Host) -> None:
    mute(gpu1)
    muted.script("print('done')")
    client = Watched(muted.start("submit", "-c", "lab1", "train.py"))
    client.wait_for_words("nothing was received from lab1 for 8 s")
    mute(gpu1, others=NEVER)
    for process in gpu1.processes():
        if "/usr/bin/python3" in process.argv[1:2]:
            gpu1.kill(process.pid)
    assert client.finish() == 0, client.err
    assert client.err.count("nothing was received") == 1


def test_quiet_work_of_a_healthy_target_is_waited_for(muted: Laptop) -> None:
    """Also by a client that Ctrl-Z stops for longer than a target may be silent."""
    stopped = muted.start("exec", "-r", "2", "--", "sh", "-c", "echo up; sleep 27; echo over")
    assert stopped.stdout is not None
    assert stopped.stdout.read(3) == b"up\n"
    os.kill(_client_process(stopped), signal.SIGSTOP)
    commands = {
        "exec": ("exec", "-r", "2", "--", "sh", "-c", "sleep 18; echo over; exit 3"),
        "load": ("image", "import", "-c", "lab1", archive(muted)),
    }
    outcomes = _all_at_once(muted, commands)
    result, seconds = outcomes["exec"]
    assert (result.code, result.out, seconds > 18, result.err) == (3, b"over\n", True, "")
    result, _ = outcomes["load"]
    assert (result.code, result.out) == (0, b"lab:1\n"), result
    assert "nothing was received" not in result.err
    os.kill(_client_process(stopped), signal.SIGCONT)
    out, err = stopped.communicate(timeout=60)
    assert (stopped.returncode, out, err) == (0, b"over\n", b"")


def _client_process(client: subprocess.Popen[bytes]) -> int:
    """The command itself, below what enters the lab's network."""
    pid = client.pid
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        name = Path(f"/proc/{children[0]}/comm").read_text().strip()
        if name.startswith("ssh"):
            break
        pid = int(children[0])
    return pid


def _all_at_once(laptop: Laptop, commands: dict[str, tuple[str, ...]]) -> dict[str, tuple[Result, float]]:
    began, outcomes = time.monotonic(), {}
    clients = {name: Watched(laptop.start(*words)) for name, words in commands.items()}
    ended: dict[str, float] = {}
    while len(_note_ends(clients, ended, began)) < len(clients):
        assert time.monotonic() - began < 110, (sorted(set(clients) - set(ended)), ended)
        time.sleep(0.1)
    for name, client in clients.items():
        outcomes[name] = (Result(client.finish(), client.out, client.err), ended[name])
    return outcomes


def _note_ends(clients: dict[str, Watched], ended: dict[str, float], began: float) -> dict[str, float]:
    for name, client in clients.items():
        if name not in ended and client.process.poll() is not None:
            ended[name] = time.monotonic() - began
    return ended
