"""Being where a run is: a command beside it, a shell in its folder, a port of its machine."""

from __future__ import annotations

import hashlib
import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, alive, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User

WAITING = "import time; print('up', flush=True); time.sleep(600)"
SERVING = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):  # of HTTP/1.0: where an answer ends is told by closing
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(range(256)) * 8192)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 6006), Answer)
print("up", flush=True)
server.serve_forever()
"""
FETCH = "import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=60).read())"


@pytest.fixture
def running(attached: Laptop) -> Laptop:
    attached.script(WAITING)
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    return attached


def test_a_command_beside_a_run(running: Laptop, ada: User) -> None:
    uid = running.record()["uid"]
    shown = running.holdfast("exec", "-r", "last", "--", "sh", "-c", "hostname; pwd; echo $HOLDFAST_RUN_UID; exit 7")
    place = f"/home/ada/.holdfast/runs/{uid}/a1/workspace/above/work"
    assert (shown.code, shown.text.split(), shown.err) == (7, ["gpu1", place, uid], "")
    data = os.urandom(5_000_000)
    script = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.stderr.write(str(len(d)))"
    process = running.start("exec", "-r", "1", "python3", "-c", script, stdin=subprocess.PIPE)
    out, err = process.communicate(data, timeout=120)
    assert (process.returncode, out == data, err) == (0, True, b"5000000")
    assert running.holdfast("exec", "nothing-like-it").code == 127
    assert not [process for process in ada.processes() if "python3" in process.argv[0] and script in process.argv]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_exec_command_ends_when_its_client_is_killed(running: Laptop, ada: User, number: int) -> None:
    with _killed_at_last(running.start("exec", "--", "sh", "-c", "sleep 1234 | sleep 1234")) as process:
        eventually(lambda: len(_sleepers(ada)) == 2)
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    eventually(lambda: not _sleepers(ada))
    assert running.record()["status"] == "Running"


def test_a_link_that_breaks_is_told(running: Laptop, lab: Lab, gpu1: Host, ada: User) -> None:
    with _killed_at_last(running.start("exec", "--", "sh", "-c", "echo up; sleep 1234")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        gpu1.kill_sshd()
        _, err = process.communicate(timeout=60)
        assert process.returncode == 69
        assert b"the connection was lost" in err
    eventually(lambda: not _sleepers(ada))
    gpu1.start_sshd()


@pytest.mark.parametrize("shell", ["/bin/sh", "/usr/bin/fish", "/bin/tcsh", "/usr/bin/zsh"])
def test_a_shell_in_the_folder_of_a_run(laptop: Laptop, gpu1: Host, shell: str) -> None:
    if not Path(shell).exists():
        pytest.skip(f"NOT TESTED: there is no {shell} here")
    eve = gpu1.user("eve", shell=shell)
    eve.authorize(laptop.client.key())
    eve.write(".zshrc", "")
    assert laptop.attach(eve, gpu1).code == 0
    laptop.script(WAITING)
    assert laptop.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    place = f"/home/eve/.holdfast/runs/{laptop.record()['uid']}/a1/workspace/above/work"
    said = _at_terminal(laptop, "ssh", "-r", "last", typed="tty; pwd; exit 3\r")
    assert said.code == 3
    assert "/dev/pts/" in said.text
    assert place in said.text
    said = _at_terminal(laptop, "ssh", "-c", "lab1", typed="pwd; exit 0\r")
    assert (said.code, "/home/eve\r\n" in said.text) == (0, True)


def test_what_is_left_of_a_run_can_be_entered(attached: Laptop) -> None:
    attached.script("open('outputs/m', 'w').write('kept')")
    assert attached.holdfast("submit", "-c", "lab1", "train.py").code == 0
    assert attached.holdfast("exec", "cat", "outputs/m").out == b"kept"
    with attached.start("ssh", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(b"cat outputs/m; exit 4\n", timeout=60)
    assert (process.returncode, out) == (4, b"kept")
    assert b"the work folder was removed" in err
    assert attached.holdfast("ssh", "-r", "last", "-c", "lab1").code == 2


def test_a_port_of_its_machine(attached: Laptop, gpu1: Host) -> None:
    attached.script(SERVING)
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    eventually(lambda: attached.holdfast("logs").out == b"up\n")
    expected = hashlib.sha256(bytes(range(256)) * 8192).digest()
    with _killed_at_last(attached.start("forward", "6006", "6006:7000")) as forward:
        assert forward.stdout is not None
        urls = [forward.stdout.readline().decode().strip() for _ in range(2)]
        assert urls == ["http://127.0.0.1:6006/", "http://127.0.0.1:7000/"]
        fetching = [
            attached.client.popen(sys.executable, "-c", FETCH, urls[0], stdout=subprocess.PIPE) for _ in range(8)
        ]
        for one in fetching:
            assert hashlib.sha256(one.communicate(timeout=120)[0]).digest() == expected
        assert _listening(attached) == {"127.0.0.1:6006", "127.0.0.1:7000"}
        with _killed_at_last(attached.start("forward", "6006:7000")) as other:  # which the first has
            assert other.stdout is not None
            assert other.stdout.readline() == b"http://127.0.0.1:7001/\n"
            other.send_signal(signal.SIGINT)
            assert b"port 7000 is in use here; using 7001 instead" in other.communicate(timeout=60)[1]
            assert other.returncode == 0
        assert attached.client.run(sys.executable, "-c", FETCH, urls[1]).stdout != ""
        forward.kill()
    eventually(lambda: not _listening(attached))


def test_forward_to_a_closed_port_reports_it(running: Laptop) -> None:
    with _killed_at_last(running.start("forward", "6006")) as forward:
        assert forward.stdout is not None
        url = forward.stdout.readline().decode().strip()
        assert running.client.run(sys.executable, "-c", FETCH, url, check=False).returncode != 0
        forward.send_signal(signal.SIGINT)
        assert b"lab1: no service responds on its port 6006" in forward.communicate(timeout=60)[1]
    assert running.holdfast("forward", "http").code == 2


def test_a_run_on_this_machine_is_joined_the_same_way(desk: Desk) -> None:
    desk.script(WAITING)
    assert desk.holdfast("submit", "-c", "local", "--no-wait", "train.py").code == 0
    eventually(lambda: desk.record()["status"] == "Running")
    work = str(desk.attempt() / "workspace/above/work")
    shown = desk.holdfast("exec", "--", "sh", "-c", "pwd; exit 5")
    assert (shown.code, shown.text.strip()) == (5, work)
    with desk.start("ssh", stdin=subprocess.PIPE, env={"SHELL": "/bin/sh"}) as process:
        assert process.communicate(b"pwd; exit 6\n", timeout=60)[0] == f"{work}\n".encode()
        assert process.returncode == 6
    shown = desk.holdfast("forward", "6006")
    assert (shown.code, shown.text) == (0, "http://127.0.0.1:6006/\n")
    assert "its ports need no forwarding" in shown.err


@contextmanager
def _killed_at_last(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with process:
        try:
            yield process
        finally:
            process.kill()


def _sleepers(user: User) -> list[int]:
    return [process.pid for process in user.processes() if process.argv == ("sleep", "1234")]


def _listening(laptop: Laptop) -> set[str]:
    """Listening addresses on the laptop."""
    lines = laptop.client.run("ss", "-H", "-l", "-t", "-n").stdout.splitlines()
    return {line.split()[3] for line in lines}


class _Said:
    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text


def _at_terminal(laptop: Laptop, *words: str, typed: str) -> _Said:
    """What a person sees who types this at a real terminal."""
    ours, theirs = pty.openpty()
    command = [*laptop.client.prefix(laptop.project), str(HOLDFAST), *words]
    env = {**laptop.env, "TERM": "dumb"}
    with subprocess.Popen(
        command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        text = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:
                break
            if not block:
                break
            text += block
        os.close(ours)
        process.wait(timeout=120)
    assert not alive(process.pid)
    return _Said(process.returncode, text.decode("utf-8", "replace"))
