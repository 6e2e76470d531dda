"""What every host must do: carry words and bytes unchanged, whatever they are."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, NamedTuple

import pytest

from conftest import alive, eventually
from holdfast.hosts.local import LocalHost
from holdfast.hosts.ssh import SshHost
from holdfast.model import Login
from sshlab import Lab, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.ports import Host, Stream
    from sshlab import User

HOSTS = ["local", "ssh", "ssh-apart", "ssh-fish", "ssh-tcsh"]

HOSTILE = {
    "empty": "",
    "space": " ",
    "spaces": "  a  b  ",
    "single": "it's",
    "double": 'say "x"',
    "backslash": "a\\b\\\\",
    "newline": "one\ntwo\n",
    "tab": "\t",
    "return": "\r",
    "semicolon": "; touch /tmp/holdfast-was-here;",
    "substitution": "$(id) `id` ${HOME} $HOME $$",
    "glob": "* ? [a] ~ {a,b}",
    "redirect": "> < | & && || 2>&1",
    "percent": "%PATH% %s %n",
    "bang": "!! !x",
    "hash": "# no comment",
    "dash": "-rf",
    "dashes": "--",
    "equals": "A=B",
    "utf8": "naïve café 漢字 🚀",
    "bytes": os.fsdecode(b"\xff\xfe caf\xe9 \x01\x7f"),
    "long": "x" * 100_000,
}
PRINT_ARGUMENTS = "import os, sys; os.write(1, b''.join(os.fsencode(word) + b'\\0' for word in sys.argv[1:]))"


class Place(NamedTuple):
    """A host, and the way to put a program on it."""

    host: Host
    program: Callable[[str, str], str]


@pytest.fixture(scope="module", params=HOSTS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    if request.param == "local":
        yield Place(LocalHost(), lambda name, text: write_program(folder / name, text))
        return
    try:
        with Lab(hosts=("box",)) as lab, pytest.MonkeyPatch.context() as patch:
            yield _over_ssh(lab, folder, request.param, patch)
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def host(place: Place) -> Host:
    return place.host


@pytest.mark.parametrize("word", HOSTILE.values(), ids=HOSTILE)
def test_a_word_arrives_as_it_is(host: Host, word: str) -> None:
    assert _output(host, ("python3", "-c", PRINT_ARGUMENTS, word)) == os.fsencode(word) + b"\0"


def test_many_words_arrive_in_order(host: Host) -> None:
    words = tuple(word for name, word in HOSTILE.items() if name != "long") * 3
    expected = b"".join(os.fsencode(word) + b"\0" for word in words)
    assert _output(host, ("python3", "-c", PRINT_ARGUMENTS, *words)) == expected


def test_a_program_with_a_hostile_name_is_found(place: Place) -> None:
    program = place.program(os.fsdecode(b"my $(id) 'tool' \xff"), "#!/bin/sh\nprintf '%s' \"$1\"\n")
    assert _output(place.host, (program, "-n")) == b"-n"


def test_every_byte_passes_in_both_directions(host: Host) -> None:
    data = bytes(range(256)) * 4096
    assert _output(host, ("cat",), data) == data


def test_standard_error_is_kept_apart(host: Host) -> None:
    stream = host.run(("sh", "-c", "echo out; echo err >&2"))
    os.close(stream.stdin)
    assert _read(stream.stdout) == b"out\n"
    assert b"err\n" in _read(stream.stderr)
    _finish(stream)


def test_output_comes_as_it_is_written(host: Host) -> None:
    stream = host.run(("cat",))
    for word in (b"one", b"two"):
        os.write(stream.stdin, word)
        assert os.read(stream.stdout, 100) == word
    os.close(stream.stdin)
    _read(stream.stdout)
    _finish(stream)


def test_closing_stdin_ends_what_reads_it(host: Host) -> None:
    stream = host.run(("cat",))
    os.close(stream.stdin)
    assert _read(stream.stdout) == b""
    _finish(stream)


def test_several_commands_run_at_once(host: Host) -> None:
    streams = [host.run(("cat",)) for _ in range(5)]
    for number, stream in enumerate(streams):
        os.write(stream.stdin, b"%d" % number)
    for number, stream in reversed(list(enumerate(streams))):
        os.close(stream.stdin)
        assert _read(stream.stdout) == b"%d" % number
        _finish(stream)


def test_ctrl_c_for_the_client_does_not_reach_the_command(host: Host) -> None:
    """A terminal sends SIGINT to the client's whole process group."""
    stream = host.run(("cat",))
    assert os.getpgid(stream.pid) != os.getpgid(0)
    os.close(stream.stdin)
    _read(stream.stdout)
    _finish(stream)


def test_a_command_of_another_does_not_keep_a_stream_open(host: Host) -> None:
    """The second command must not inherit the first one's stdin, or closing it would end nothing."""
    first = host.run(("cat",))
    second = host.run(("cat",))
    os.close(first.stdin)
    assert _read(first.stdout) == b""
    _finish(first)
    os.close(second.stdin)
    _read(second.stdout)
    _finish(second)


def test_a_command_that_is_killed_ends_its_streams(host: Host) -> None:
    stream = host.run(("sleep", "600"))
    os.kill(stream.pid, signal.SIGKILL)
    assert _read(stream.stdout) == b""
    os.close(stream.stdin)
    _finish(stream)


def test_terminal_command_reaches_the_same_machine(host: Host) -> None:
    words = ("sh", "-c", "cat /proc/sys/kernel/hostname")
    argv = host.at_terminal(words)
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout.strip() == _output(host, words).strip() != b""


def _over_ssh(lab: Lab, folder: Path, kind: str, patch: pytest.MonkeyPatch) -> Place:
    """The test is not on the lab's network; an ``ssh`` that is found first on the path goes there."""
    box, client = lab["box"], lab.client(folder / "home")
    shell = {"ssh-fish": "/usr/bin/fish", "ssh-tcsh": "/bin/tcsh"}.get(kind, "/bin/bash")
    user = box.user("ada", shell=shell)
    user.authorize(client.key())
    words = " ".join(shlex.quote(word) for word in client.prefix())
    (folder / "bin").mkdir()
    write_program(folder / "bin" / "ssh", f'#!/bin/sh\nexec {words} {shutil.which("ssh")} "$@"\n')
    patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    patch.setenv("HOME", str(client.home))
    key = " ".join(box.public_key("ed25519").split()[:2])
    login = Login("box", str(folder / "ssh" / "box"), box.hostname, "ada", host_key=key)
    made = SshHost(login, shared=kind != "ssh-apart")
    return Place(made, lambda name, text: _written_there(user, name, text))


def _written_there(user: User, name: str, text: str) -> str:
    user.write(name, text, 0o755)
    return f"{user.home}/{name}"


def write_program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _output(host: Host, argv: tuple[str, ...], stdin: bytes = b"") -> bytes:
    stream = host.run(argv)
    writer = threading.Thread(target=_feed, args=(stream.stdin, stdin))
    writer.start()
    found = _read(stream.stdout)
    writer.join()
    assert _read(stream.stderr) == b""
    _finish(stream)
    return found


def _feed(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
    os.close(fd)


def _read(fd: int) -> bytes:
    found = b""
    while block := os.read(fd, 1 << 20):
        found += block
    return found


def _finish(stream: Stream) -> None:
    os.close(stream.stdout)
    os.close(stream.stderr)
    eventually(lambda: not alive(stream.pid))
