"""What a submit over SSH costs, as far as it can be counted: round trips, bytes, objects, connections."""

from __future__ import annotations

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chaosproxy import Proxy, Stats
    from ssh.conftest import Laptop
    from sshlab import Host, Lab, User

LINE_KB = 100
DELAY = 0.1
SUBMIT = ("submit", "-c", "lab1", "train.py")


def test_a_warm_submit_takes_three_round_trips(laptop: Laptop, gpu1: Host, ada: User, runtime: Path) -> None:
    laptop.env["XDG_RUNTIME_DIR"] = str(runtime)
    proxy = laptop.client.proxy(gpu1, "far.lab")
    ada.authorize(laptop.client.key())
    accept = ("--accept-host-key", gpu1.fingerprint())
    where = ("--name", "lab1", "--address", "far.lab", "--username", ada.name)
    assert laptop.holdfast("computetarget", "attach", "remote", *where, *accept).code == 0
    laptop.script("print('hello')")
    assert laptop.holdfast(*SUBMIT).code == 0
    connections = proxy.stats().connections
    proxy.set(delay=DELAY)  # what crosses on the way makes no trip, so there must be a way
    (socket,) = (runtime / "holdfast").iterdir()
    bare = ("ssh", "-S", str(socket), "-l", ada.name, "far.lab", "true")
    assert _trips(proxy, lambda: laptop.client.run(*bare)) == 2  # the channel, then the command
    assert _trips(proxy, lambda: laptop.holdfast(*SUBMIT)) == 3
    assert proxy.stats().connections == connections


def test_one_changed_line_among_thousands_of_files(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    """In a folder of a hundred, in a folder of thousands, and in a long file."""
    attached.script("import sys; print(open(sys.argv[1]).read().count('changed'))")
    paths = [_fill(attached.project / "many" / f"d{number}", 100)[7] for number in range(10)]
    paths += _fill(attached.project / "flat", 3000)
    long = attached.project / "long.txt"
    long.write_text("".join(f"{number} {os.urandom(30).hex()}\n" for number in range(10_000)))
    assert attached.holdfast(*SUBMIT, "long.txt").code == 0
    for path in (paths[3], paths[1500], long):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:1], "changed", *lines[2:]]))
        before = lab.traffic(gpu1).bytes_to
        result = attached.holdfast(*SUBMIT, str(path.relative_to(attached.project)))
        assert lab.traffic(gpu1).bytes_to - before < LINE_KB * 1000, path
        assert (result.code, b"\n1\n" in result.out) == (0, True), result


def test_an_unchanged_project_is_not_sent_again(attached: Laptop, gpu1: Host, ada: User, lab: Lab) -> None:
    attached.script("print('hello')")
    _fill(attached.project / "flat", 500)
    assert attached.holdfast(*SUBMIT).code == 0
    before, stored = lab.traffic(gpu1).bytes_to, _objects(ada)
    assert len(stored) > 500
    assert attached.holdfast(*SUBMIT).code == 0
    assert _objects(ada) == stored
    assert lab.traffic(gpu1).bytes_to - before < 30_000


def test_what_the_machine_has_lost_is_sent_again(attached: Laptop, ada: User) -> None:
    """The client remembers what it sent; another client's prune, or a person, may have removed it since."""
    attached.script("import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())")
    big, long = attached.project / "big.bin", attached.project / "long.txt"
    big.write_bytes(os.urandom(9_000_000))
    long.write_text("".join(f"{number}\n" for number in range(20_000)))
    assert attached.holdfast(*SUBMIT, "big.bin").code == 0
    ada.run("rm", "-rf", ".holdfast/objects")
    for path in (big, long):
        path.write_bytes(path.read_bytes() + b"one line more\n")
    result = attached.holdfast(*SUBMIT, "big.bin")
    assert result.code == 0, result


def test_ten_commands_share_one_connection(attached: Laptop, gpu1: Host) -> None:
    attached.script("print('hello')")
    assert attached.holdfast(*SUBMIT).code == 0
    before = gpu1.log().count("Accepted ")
    for _ in range(5):
        assert attached.holdfast(*SUBMIT).code == 0
        assert attached.holdfast("exec", "-r", "last", "--", "true").code == 0
    assert before >= 1
    assert gpu1.log().count("Accepted ") == before


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder with a name that is short enough for a socket."""
    with TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


def _trips(proxy: Proxy, command: Callable[[], object]) -> int:
    """How often a command waits for the line; the best of a few, because a slow machine sends keep-alives meanwhile."""
    found = []
    for _ in range(3):
        before = proxy.stats()
        while (now := _later(proxy)) != before:
            before = now
        command()
        # The last word of the command before was ours, and unanswered: with it the first one counts as one trip.
        found.append(proxy.stats().trips - before.trips + 1)
    return min(found)


def _later(proxy: Proxy) -> Stats:
    time.sleep(4 * DELAY)
    return proxy.stats()


def _fill(folder: Path, count: int) -> list[Path]:
    folder.mkdir(parents=True)
    paths = [folder / f"file{number}.txt" for number in range(count)]
    for path in paths:
        path.write_text("\n".join(os.urandom(30).hex() for _ in range(4)))
    return paths


def _objects(user: User) -> set[str]:
    root = user.path(".holdfast/objects")
    return {str(path.relative_to(root)) for path in root.glob("??/*")}
