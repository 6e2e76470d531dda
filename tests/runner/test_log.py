"""The script's words: every byte of them, in order, however many and whatever they are."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, post_fixture, sha256  # noqa: F401

from conftest import eventually
from holdfast.runner.machine import processes
from lab.pythons import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MB = 1000**2


@pytest.mark.parametrize(
    "words",
    [
        random.Random(54).randbytes(300_000),
        b"\0" * 5000,
        b"\x1b[31mred\x1b[0m\rprogress 1%\rprogress 2%\r\n\x1b]0;title\x07",
        b"no newline at the end",
        b"",
    ],
    ids=["random", "nul", "ansi", "torn", "silent"],
)
def test_bytes_are_kept_as_they_are(post: Post, words: bytes) -> None:
    run = post.start(post.plan(("cat", "words"), files={b"words": words}))
    closed = run.wait()
    assert run.log == words
    assert closed["files"]["log"] == [len(words), sha256(words)]


def test_both_streams_keep_their_order(post: Post) -> None:
    run = post.run("import os\nfor i in range(2000): os.write(1 + i % 2, b'%d\\n' % i)")
    assert run.log == b"".join(b"%d\n" % number for number in range(2000))


def test_the_closing_event_speaks_for_every_file(post: Post) -> None:
    run = post.run(
        "import holdfast\n"
        "for i in range(100): holdfast.log('loss', i / 2)\n"
        "holdfast.log('note', 'text')\n"
        "open('outputs/model', 'w').write('weights')\n"
        "print('done')\n"
    )
    sealed = run.event("closed")["files"]
    metrics = {f"metrics/{path.name}" for path in (run.folder / "metrics").iterdir()}
    assert len(metrics) == 3
    assert "metrics/packages.json" in metrics
    assert set(sealed) == {"log", "outputs.jsonl"} | metrics
    for name, (size, digest) in sealed.items():
        data = (run.folder / name).read_bytes()
        assert (size, digest) == (len(data), sha256(data)), name


def test_odd_things_among_the_metrics_do_not_lose_the_run(post: Post) -> None:
    run = post.run(
        "import os, holdfast\n"
        "holdfast.log('loss', 1)\n"
        "where = os.environb[b'HOLDFAST_METRICS_DIR'] + b'/'\n"
        "os.mkdir(where + b'folder'); os.symlink(b'/etc/passwd', where + b'link'); os.mkfifo(where + b'pipe')\n"
        "open(where + b'caf\\xe9', 'wb').close(); open(where + b'back\\\\slash', 'wb').close()\n"
    )
    closed = run.event("closed")
    assert closed["outcome"] == "completed"
    assert "metrics/caf\udce9" in closed["files"]
    client = post.mirror()
    assert post.follow(client, run) == "closed"
    assert sorted(os.listdir(client.run(run.uid, "a1", "metrics"))) == sorted(
        name.partition("/")[2] for name in closed["files"] if name.startswith("metrics/")
    )


def test_metrics_taken_away_do_not_lose_the_run(post: Post) -> None:
    run = post.run("import os, shutil; shutil.rmtree(os.environ['HOLDFAST_METRICS_DIR']); print('on')")
    assert run.event("closed")["outcome"] == "completed"
    assert run.log == b"on\n"


def test_the_limit_stops_the_log_and_not_the_script(post: Post) -> None:
    run = post.run("import sys\nfor i in range(1000): sys.stdout.write('x' * 1000)\nsys.exit(7)", max_log=123_456)
    closed = run.event("closed")
    assert closed["exit_code"] == 7
    assert run.log == b"x" * 123_456
    assert closed["files"]["log"] == [123_456, sha256(b"x" * 123_456)]
    stopped = run.event("log_stopped")
    assert stopped["at"] == 123_456
    assert "maxLogSize" in stopped["why"]


@ONCE
def test_a_log_that_just_fits_is_not_said_to_be_cut(post: Post) -> None:
    run = post.run("print('1234')", max_log=5)
    assert run.log == b"1234\n"
    assert "log_stopped" not in run.types


@pytest.mark.parametrize("post", [NEWEST], indirect=True)  # the oldest hashes 200 MB a second
def test_a_gigabyte_passes_without_growing(post: Post) -> None:
    block = random.Random(55).randbytes(MB - 1) + b"\n"
    script = (
        "import os, sys\n"
        "block = open('block', 'rb').read()\n"
        "for _ in range(1000): sys.stdout.buffer.write(block)\n"
        "sys.stdout.buffer.flush()\n"
        "open('outputs/done', 'w')\n"
        "open(os.environ['GATE']).read()\n"
    )
    gate = post.place / "gate"
    os.mkfifo(gate)
    run = post.start(post.script(script, files={b"block": block}), {"GATE": str(gate)})
    eventually((run.folder / "workspace/above/work" / "outputs" / "done").exists, 60)
    pull = post.channel.stream("pull", uid=run.uid, have={"log": 500 * MB}, carry=True, wait=False)
    carried = sum(len(payload) for header, payload in pull if header.get("file") == "log")
    assert carried >= 499 * MB
    peaks = [_peak_kb(pid) for pid in {run.supervisor, run.guardian, *processes.descendants(os.getpid())}]
    gate.write_text("go")
    closed = run.wait()
    expected = hashlib.sha256()
    for _ in range(1000):
        expected.update(block)
    assert closed["files"]["log"] == [1000 * MB, expected.hexdigest()]
    with open(run.folder / "log", "rb") as log:
        assert all(log.read(MB) == block for _ in range(1000))
    (run.folder / "log").unlink()  # pytest keeps the folders of its last runs
    assert max(peaks) < 50_000, peaks


@ONCE
def test_a_line_of_a_hundred_million_characters(post: Post) -> None:
    gate = post.place / "gate"
    os.mkfifo(gate)
    run = post.start(post.plan(("sh", "-c", f"head -c {100 * MB} /dev/zero | tr '\\0' y; echo; cat {gate}")))
    eventually(lambda: (run.folder / "log").stat().st_size == 100 * MB + 1)
    peak = max(_peak_kb(run.supervisor), _peak_kb(run.guardian))
    gate.write_text("")
    run.wait()
    assert run.log == b"y" * (100 * MB) + b"\n"
    assert peak < 50_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: no small disk could be mounted: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_stops_the_log_and_not_the_script(small_disk: Path, post: Post, tmp_path: Path) -> None:
    post.home = small_disk / "target"
    done = tmp_path / "done"
    # So many files make the closing event longer than what fits in the blocks that its file already has.
    many = f"for i in $(seq 100); do : > $HOLDFAST_METRICS_DIR/{'x' * 200}$i; done; : > outputs/y"
    run = post.start(post.plan(("sh", "-c", f"{many}; head -c {20 * MB} /dev/zero; echo yes > {done}; exit 3")))
    closed = run.wait()
    assert done.read_text() == "yes\n"
    assert (closed["outcome"], closed["exit_code"]) == ("failed", 3)
    assert len(closed["files"]) == 102, "the manifest of outputs among them, written into the reserve"
    stopped = run.event("log_stopped")
    assert "No space left" in stopped["why"]
    size = (run.folder / "log").stat().st_size
    assert closed["files"]["log"] == [size, sha256(bytes(size))]
    assert stopped["at"] == size
    assert 1 * MB < size < 5 * MB


def test_a_run_that_has_filled_the_disk_can_be_stopped(small_disk: Path, post: Post) -> None:
    post.home = small_disk / "target"
    run = post.start(post.plan(("sh", "-c", f"head -c {20 * MB} /dev/zero; sleep 600")))
    eventually(lambda: os.statvfs(small_disk).f_bavail == 0)
    assert post.stop(run) == "asked"
    assert run.wait()["exit_code"] == 143
    assert run.processes() == []


def test_a_work_folder_deleted_under_the_script_costs_its_outputs_only(post: Post) -> None:
    run = post.run(
        "import os, shutil, sys\nprint('before'); sys.stdout.flush()\nshutil.rmtree(os.getcwd())\nprint('after')\n"
    )
    closed = run.event("closed")
    assert closed["outcome"] == "completed"
    assert run.log == b"before\nafter\n"
    assert "did not exist" in closed["outputs_trouble"]


def _peak_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as source:
        return next(int(line.split()[1]) for line in source if line.startswith("VmHWM"))
