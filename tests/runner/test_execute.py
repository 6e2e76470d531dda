"""``holdfast exec``: every byte of its streams, its input, its exit, and its end when the client is gone."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from runner_post import ONCE, post_fixture  # noqa: F401

from conftest import alive, eventually
from holdfast.runner.machine import processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from runner_post import Post, Run

    from holdfast.engine.connection.channel import RunnerChannel

Frame: TypeAlias = "tuple[dict[str, Any], bytes]"

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
FAMILY = "import os, time; os.fork(); os.fork(); print(os.getpid(), flush=True); time.sleep(600)"


def test_it_has_the_folder_and_the_variables_of_the_run(post: Post) -> None:
    run = _running(post, env={"TOKEN": "secret"})
    code, out, err = _execute(post, run, "sh", "-c", "pwd; echo $HOLDFAST_RUN_ID; echo err $TOKEN >&2; umask; exit 7")
    assert code == 7
    assert out.split(b"\n")[:2] == [os.fsencode(run.folder / "workspace/above/work"), b"project_1"]
    assert out.split(b"\n")[2] == b"%04o" % _umask()
    assert err == b"err\n"


def test_when_the_run_is_over_it_is_where_its_outputs_are(post: Post) -> None:
    run = post.run("open('outputs/model', 'w').write('kept')")
    assert _execute(post, run, "cat", "outputs/model") == (0, b"kept", b"")


def test_every_byte_passes_and_streams_do_not_mix(post: Post) -> None:
    run = _running(post)
    both = "import os\nfor n in range(400): os.write(1, bytes(range(256)) * 16); os.write(2, b'e' * 1000)"
    code, out, err = _execute(post, run, post.python, "-c", both)
    assert (code, out == bytes(range(256)) * 16 * 400, err == b"e" * 400_000) == (0, True, True)


def test_input_is_handed_on_to_its_end(post: Post) -> None:
    run = _running(post)
    data = os.urandom(3_000_000)
    assert _execute(post, run, "cat", feed=data) == (0, data, b"")
    assert _execute(post, run, "cat", feed=b"") == (0, b"", b"")
    assert _execute(post, run, "cat") == (0, b"", b"")


def test_command_that_closes_its_stdin_does_not_block(post: Post) -> None:
    run = _running(post)
    assert _execute(post, run, "sh", "-c", "exec <&-; echo done", feed=bytes(900_000))[:2] == (0, b"done\n")


def test_the_end_is_told_as_shells_tell_it(post: Post) -> None:
    run = _running(post)
    assert _execute(post, run, "sh", "-c", "kill -9 $$")[0] == 137
    assert _execute(post, run, "no-such-program") == (
        127,
        b"",
        b"holdfast: no-such-program: No such file or directory\n",
    )
    assert _execute(post, run, "/etc/passwd")[0] == 126
    assert _execute(post, run, "sh", "-c", 'printf %s "$1"', "x", os.fsdecode(b"caf\xe9 \xff"))[1] == b"caf\xe9 \xff"


def test_what_it_leaves_behind_is_ended_with_it(post: Post) -> None:
    run = _running(post)
    code, out, _ = _execute(post, run, "sh", "-c", "sleep 600 & echo $!; (setsid sleep 600 & echo $!)")
    assert code == 0
    assert [pid for pid in out.split() if alive(int(pid))] == []


def test_the_conversation_goes_on_afterwards(post: Post) -> None:
    run = _running(post)
    assert _execute(post, run, "true")[0] == 0
    post.channel.send_ahead("input", b"too late")
    assert post.look(run) == "alive"
    assert post.stop(run) == "asked"
    assert run.wait()["outcome"] == "canceled"


def test_a_run_that_never_started_cannot_be_joined(post: Post) -> None:
    answer = post.channel.ask("exec", uid="0" * 32, argv=["true"], input=False, patience=60)
    assert "never started" in str(answer["refused"])


def test_it_ends_when_the_client_hangs_up(post: Post) -> None:
    run, channel = _running(post), post.connect()
    family = _begun(channel, run, post.python, patience=600)
    channel.close()
    post.forget(channel)
    eventually(lambda: not [pid for pid in family if alive(pid)])
    assert post.look(run) == "alive"


def test_it_ends_when_nothing_is_heard_of_the_client(post: Post) -> None:
    """As after a silent cut: the connection is open, and no byte comes over it."""
    run, channel = _running(post), post.connect()
    family = _begun(channel, run, post.python, patience=0.5)
    eventually(lambda: not [pid for pid in family if alive(pid)])


@ONCE
def test_a_client_that_does_not_read_is_still_heard(post: Post) -> None:
    run, channel = _running(post), post.connect()
    frames = channel.stream("exec", **_asked(run, "head", "-c", "5000000", "/dev/zero", patience=6))
    next(frames)
    until = time.monotonic() + 8
    while time.monotonic() < until:
        channel.send_ahead("input", b"")
        time.sleep(0.1)
    code, out, _ = _heard(frames)
    assert (code, len(out)) == (0, 5_000_000)


def _running(post: Post, **more: Any) -> Run:
    run = post.start(post.script(SLEEP), **more)
    run.wait_for_log(b"up\n")
    return run


def _execute(post: Post, run: Run, *argv: str, feed: bytes | None = None) -> tuple[int, bytes, bytes]:
    """The whole of ``feed`` at once: it must fit into what may be underway, or be taken meanwhile."""
    frames = post.channel.stream("exec", **_asked(run, *argv, feed=feed is not None))
    first = next(frames)
    speaker = threading.Thread(target=_feed, args=(post.channel, feed))
    speaker.start()
    heard = _heard(frames, first)
    speaker.join()
    return heard


def _feed(channel: RunnerChannel, data: bytes | None) -> None:
    if data is not None:
        for at in range(0, len(data), 65536):
            channel.send_ahead("input", data[at : at + 65536])
        channel.send_ahead("input", b"", last=True)


def _heard(
    frames: Iterator[tuple[dict[str, Any], bytes]], *first: tuple[dict[str, Any], bytes]
) -> tuple[int, bytes, bytes]:
    said = {1: b"", 2: b""}
    code = -1
    for header, payload in (*first, *frames):
        if "stream" in header:
            said[header["stream"]] += payload
        code = int(header.get("code", code))
    return code, said[1], said[2]


def _begun(channel: RunnerChannel, run: Run, python: str, patience: float) -> list[int]:
    """Start a command that forks; the processes of its family, once all four are there."""
    frames = channel.stream("exec", **_asked(run, python, "-c", FAMILY, patience=patience))
    pid = next(int(str(header["began"])) for header, _ in frames if "began" in header)
    family: list[int] = []

    def complete() -> bool:
        family[:] = [pid, *processes.descendants(pid)]
        return len(family) == 4

    eventually(complete)
    return family


def _asked(run: Run, *argv: str, feed: bool = False, patience: float = 60) -> dict[str, Any]:
    return {"uid": run.uid, "argv": list(argv), "input": feed, "patience": patience}


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
