"""Links that break: nothing is lost, nothing comes twice, and no state is guessed."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Literal

import pytest

from conftest import eventually

if TYPE_CHECKING:
    import subprocess

    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User

# Prints and logs until a file appears; what it wrote is known from its own record on the target.
STEADY = """
import holdfast, os, sys, time
n = 0
while not os.path.exists(os.path.expanduser('~/enough')):
    n += 1
    print('line', n)
    holdfast.log('n', n, step=n)
    time.sleep(0.005)
print('lines', n)
"""
# Logs two values with a checkpoint in each attempt.
RESUMING = """
import holdfast
path = os.path.join(os.environ['HOLDFAST_CHECKPOINTS'], 'n')
n = int(open(path).read()) if os.path.exists(path) else 0
for n in (n + 1, n + 2):
    holdfast.log('n', n, step=n)
    open(path, 'w').write(str(n))
""" + STEADY.replace("holdfast.log('n', n, step=n)", "").replace("n = 0", "n = 0; import sys")


@pytest.mark.parametrize("how", ["drop", "reset", "unreachable"])
def test_a_cut_while_streaming_loses_and_repeats_nothing(
    attached: Laptop, gpu1: Host, ada: User, lab: Lab, how: Literal["drop", "reset", "unreachable"]
) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    lab.cut(gpu1, how=how)
    client.wait_for_words("unreachable since")
    ada.run("touch", "enough")
    lab.heal(gpu1)
    assert client.finish() == 0
    assert "is reachable again" in client.err
    _check_equal(attached, ada, client)


def test_a_short_cut_is_not_even_noticed(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    lab.cut(gpu1)
    ada.run("touch", "enough")
    lab.heal(gpu1)
    assert client.finish() == 0
    assert "unreachable" not in client.err
    _check_equal(attached, ada, client)


@pytest.mark.parametrize("way", ["to", "from"])
def test_a_link_that_is_cut_in_one_direction(
    attached: Laptop, gpu1: Host, ada: User, lab: Lab, way: Literal["to", "from"]
) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    lab.cut(gpu1, one_way=way)
    client.wait_for_words("unreachable since", limit=60)
    ada.run("touch", "enough")
    lab.heal(gpu1)
    assert client.finish() == 0
    _check_equal(attached, ada, client)


def test_the_server_killed_while_streaming(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    gpu1.kill_sshd()
    client.wait_for_words("unreachable since")
    ada.run("touch", "enough")
    gpu1.start_sshd()
    assert client.finish() == 0
    _check_equal(attached, ada, client)


def test_run_that_ended_while_the_link_was_down_is_reported(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    attached.script(STEADY + "open('outputs/x', 'w').write('kept'); sys.exit(3)\n")
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    client.process.send_signal(signal.SIGKILL)
    client.finish()
    lab.cut(gpu1, how="unreachable")
    attached.close_connections()
    ada.run("touch", "enough")
    listed = attached.holdfast("history", "list", "-o", "json")
    assert [record["status"] for record in listed.json] == ["Running"]
    assert "lab1 is unreachable since" in listed.err
    assert attached.holdfast("status").code == 0
    returned = attached.holdfast("return")
    assert returned.code == 69, returned
    assert "results of the run are on lab1, which does not answer" in returned.err
    lab.heal(gpu1)
    record = attached.wait_for_end()
    assert (record["status"], record["exit_code"]) == ("Failed", 3)
    assert attached.holdfast("return").code == 0
    assert attached.holdfast("history", "info", "-a", "outputs/x").out == b"kept"
    _check_equal(attached, ada, None)


def test_a_cancel_that_could_not_be_delivered_is_not_forgotten(
    attached: Laptop, gpu1: Host, ada: User, lab: Lab
) -> None:
    attached.script(STEADY)
    attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py")
    eventually(lambda: attached.record()["status"] == "Running")
    lab.cut(gpu1, how="unreachable")
    attached.close_connections()
    result = attached.holdfast("cancel")
    assert result.code == 69, result
    assert "the request is recorded" in result.err
    lab.heal(gpu1)
    assert attached.wait_for_end()["status"] == "Canceled"
    assert not [process for process in ada.processes() if "train.py" in " ".join(process.argv)]


def test_an_upload_goes_on_where_it_was_cut(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    attached.script("import hashlib; print(hashlib.sha256(open('big.bin','rb').read()).hexdigest())")
    (attached.project / "big.bin").write_bytes(os.urandom(12_000_000))
    lab.slow(gpu1, bytes_per_second=2_000_000)
    before = lab.traffic(gpu1).bytes_to
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    eventually(
        lambda: any((ada.path(".holdfast/arriving")).glob("*")) if ada.path(".holdfast/arriving").exists() else False
    )
    eventually(lambda: max(path.stat().st_size for path in ada.path(".holdfast/arriving").glob("*")) > 6_000_000)
    gpu1.kill_sshd()
    client.wait_for_words("unreachable since")
    gpu1.start_sshd()
    lab.slow(gpu1)
    assert client.finish() == 0, client.err
    assert lab.traffic(gpu1).bytes_to - before < 17_000_000


def test_a_machine_that_reboots_loses_the_run_and_keeps_what_it_wrote(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 50\n")
    gpu1.reboot()
    assert client.finish() == 125, client.err
    record = attached.record()
    assert record["status"] == "Lost"
    assert "the target was rebooted at 20" in record["reason"]
    assert b"line 50\n" in attached.holdfast("logs").out
    _check_equal(attached, ada, client)


def test_a_lost_run_is_started_again_as_often_as_was_asked_for(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script("import os, sys\nprint('boot', sys.argv)\n" + RESUMING)
    client = Watched(attached.start("submit", "-c", "lab1", "--retries", "1", "train.py"))
    client.wait_for(b"line 20\n")
    gpu1.reboot()
    client.wait_for_words("is reachable again")
    eventually(lambda: b"restarted" in client.out and client.out.count(b"line 20\n") == 2)
    ada.run("touch", "enough")
    assert client.finish() == 0, client.err
    assert attached.record()["status"] == "Completed"
    uid = attached.record()["uid"]
    assert sorted(path.name for path in (attached.home / "runs" / uid).glob("a*")) == ["a1", "a2"]
    record = attached.record()
    assert [row["status"] for row in record["attempts"]] == ["Lost", "Completed"]
    assert "rebooted" in record["attempts"][0]["reason"]
    assert record["attempts"][1]["resumed_from"] == 1
    assert record["n"] == [1, 2, 3, 4], "the value of the checkpoint's attempt, then those of the attempt that resumed"
    assert attached.holdfast("info", "-a", "outputs/checkpoints/n").text == "4"
    assert record["interpreter"]["packages"] == len(record["packages"])


def test_a_script_that_is_killed_is_started_again_from_its_checkpoint(attached: Laptop) -> None:
    attached.script(
        "import os, signal\npath = os.path.join(os.environ['HOLDFAST_CHECKPOINTS'], 'n')\n"
        "if os.path.exists(path):\n    raise SystemExit(print('resumed at', open(path).read()))\n"
        "print('7', file=open(path, 'w'), end='', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = attached.holdfast("submit", "-c", "lab1", "--retries", "1", "train.py")
    assert (result.code, "\nresumed at 7\n" in result.text) == (0, True), result
    rows = attached.record()["attempts"]
    assert [(row["status"], row["resumed_from"]) for row in rows] == [("Failed", None), ("Completed", 1)]
    assert "killed by signal 9" in rows[0]["reason"]
    assert attached.holdfast("info", "-a", "outputs/checkpoints/n").text == "7"


def test_the_work_folder_removed_while_it_runs(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    uid = attached.record()["uid"]
    ada.run("rm", "-rf", f"/home/ada/.holdfast/runs/{uid}/a1/workspace")
    ada.run("touch", "enough")
    client.finish()
    assert attached.holdfast("logs").out.endswith(b"\n")
    assert b"line 20\n" in attached.holdfast("logs").out
    assert attached.wait_for_end()["status"] in ("Completed", "Failed")


def test_a_laptop_that_sleeps_and_wakes_at_another_address(attached: Laptop, gpu1: Host, ada: User) -> None:
    attached.script(STEADY)
    client = Watched(attached.start("submit", "-c", "lab1", "train.py"))
    client.wait_for(b"line 20\n")
    client.process.send_signal(signal.SIGSTOP)
    attached.client.move()
    ada.run("touch", "enough")
    client.process.send_signal(signal.SIGCONT)
    assert client.finish() == 0, client.err
    _check_equal(attached, ada, client)


def test_a_slow_link_is_no_cut(attached: Laptop, gpu1: Host, lab: Lab) -> None:
    attached.script("print(len(open('data.bin', 'rb').read()))")
    (attached.project / "data.bin").write_bytes(bytes(range(256)) * 1000)
    lab.slow(gpu1, bytes_per_second=64_000, loss=0.0)
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, result
    assert "unreachable" not in result.err


def test_a_slow_and_lossy_link_costs_time_and_nothing_else(attached: Laptop, gpu1: Host, lab: Lab) -> None:
    """With every fifth packet lost a connection may stand still for a long time."""
    attached.script("print(len(open('data.bin', 'rb').read()))")
    (attached.project / "data.bin").write_bytes(bytes(range(256)) * 1000)
    lab.slow(gpu1, bytes_per_second=64_000, loss=0.2)
    result = attached.holdfast("submit", "-c", "lab1", "train.py")
    assert result.code == 0, result
    assert result.err.count("is unreachable") == result.err.count("is reachable again")
    assert attached.holdfast("logs").out == b"256000\n"
    assert [event["type"] for event in attached.events()].count("started") == 1


class Watched:
    """A command whose words are read while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._parts: dict[str, list[bytes]] = {"out": [], "err": []}
        self._threads = [threading.Thread(target=self._read, args=(name,)) for name in self._parts]
        for thread in self._threads:
            thread.start()

    @property
    def out(self) -> bytes:
        return b"".join(self._parts["out"])

    @property
    def err(self) -> str:
        return b"".join(self._parts["err"]).decode("utf-8", "replace")

    def wait_for(self, words: bytes, limit: float = 60) -> None:
        eventually(lambda: words in self.out or self.process.poll() is not None, limit)
        assert words in self.out, self.err

    def wait_for_words(self, words: str, limit: float = 60) -> None:
        eventually(lambda: words in self.err or self.process.poll() is not None, limit)
        assert words in self.err, self.err

    def finish(self) -> int:
        code = self.process.wait(timeout=120)
        for thread in self._threads:
            thread.join()
        return code

    def _read(self, name: str) -> None:
        with getattr(self.process, f"std{name}") as stream:
            while block := stream.read1(65536):
                self._parts[name].append(block)


def _check_equal(laptop: Laptop, user: User, client: Watched | None) -> None:
    """What is here, what is there and what was shown are the same bytes."""
    uid = laptop.record()["uid"]
    there, here = user.path(f".holdfast/runs/{uid}/a1"), laptop.home / "runs" / uid / "a1"
    for path in [there / "log", there / "events.jsonl", *(there / "metrics").iterdir()]:
        assert path.read_bytes() == (here / path.relative_to(there)).read_bytes(), path
    log = (here / "log").read_bytes()
    whole = log[: log.rfind(b"\n") + 1]  # a machine that went down may have cut a line
    lines = [int(line.split()[1]) for line in whole.splitlines() if line.startswith(b"line ")]
    assert lines == list(range(1, len(lines) + 1))
    if client is not None:
        assert log in client.out


@pytest.mark.parametrize("words", [("logs",), ("logs", "--tail", "3")])
def test_log_that_was_never_fetched_from_a_dead_machine_is_named(
    attached: Laptop, gpu1: Host, lab: Lab, words: tuple[str, ...]
) -> None:
    attached.script("print('said')")
    assert attached.holdfast("submit", "-c", "lab1", "--no-wait", "train.py").code == 0
    lab.cut(gpu1, how="unreachable")
    result = attached.holdfast(*words)
    assert (result.code, result.out) == (69, b""), result
    assert "ERROR: the log of this run is not on this machine yet\n       at: lab1\n" in result.err
    lab.heal(gpu1)
    eventually(lambda: attached.holdfast(*words).out == b"said\n")
