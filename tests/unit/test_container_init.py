"""The first process of a container, run by every Python that an image may have, and where it is not the first one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import holdfast
from conftest import eventually
from holdfast.runner.gpu import probe_run
from lab.pythons import VERSIONS, python_of

INSIDE = Path(holdfast.__file__).parent / "runner" / "container" / "init.py"
FIRST = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
PATIENCE_S = 120
ORDER = "for n in 1 2 3 4 5 6 7 8 9; do echo out $n; echo err $n >&2; done"
# Says when it is ready, then what it is told.
LISTEN = "trap 'echo $1 is told; exit 5' TERM; echo $1 is ready; while :; do sleep 0.05; done"


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    return python_of(request.param)


@pytest.fixture(scope="module", params=[*VERSIONS, "2.7, not the first", "3.13, not the first"])
def start(request: pytest.FixtureRequest) -> list[str]:
    """The words of an interpreter, mostly as the first process of its own world."""
    version, _, is_other = request.param.partition(", ")
    return [python_of(version)] if is_other else [*first_words(), python_of(version)]


@pytest.fixture(scope="module", params=VERSIONS)
def first(request: pytest.FixtureRequest) -> list[str]:
    return [*first_words(), python_of(request.param)]


def first_words() -> list[str]:
    if subprocess.run([*FIRST, "true"], capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: no process can be the first of its own here")
    return FIRST


def test_first_process_needs_three_files_and_the_standard_library_only(python: str, tmp_path: Path) -> None:
    for name in ("init.py", "exec_errors.py", "nested_runs.py"):
        shutil.copyfile(INSIDE.with_name(name), tmp_path / name)
    program = "import sys; sys.path.insert(0, sys.argv[1]); import exec_errors, init, nested_runs; print(init.__file__)"
    command = [python, "-S", "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path) in done.stdout


class Box:
    """A folder with a script to be run in it; ``ask`` is what its first process is told."""

    def __init__(self, place: Path, start: list[str], *argv: str, **more: Any) -> None:
        self._start = start
        self._note = place / "note"
        self.ask: dict[str, Any] = {
            "argv": list(argv),
            "folder": str(place),
            "env": {},
            "first": {},
            "umask": 0o077,
            "grace": 5,
            "stream": None,
            "note": str(self._note),
            "ended": None,
            "folders": [],
            "after": None,
            **more,
        }

    def start(self) -> subprocess.Popen[bytes]:
        words = [*self._start, "-E", "-s", "-S", "-B", str(INSIDE)]
        env = {"PATH": "/usr/bin:/bin", "FROM_IMAGE": "yes", "LIBRARIES": "/image/lib"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(words, env=env, bufsize=0, **pipes)
        assert process.stdin is not None
        process.stdin.write(json.dumps(self.ask).encode("ascii") + b"\n")
        process.stdin.close()
        process.stdin = None
        return process

    def run(self) -> tuple[int, bytes, dict[str, Any]]:
        """Exit code, what was said, and the note."""
        with self.start() as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert err == b"", err
        return process.returncode, out, self.note()

    def note(self) -> dict[str, Any]:
        assert not self._note.with_name("note.tmp").exists()
        found: dict[str, Any] = json.loads(self._note.read_text())
        return found


def sh(place: Path, start: list[str], script: str, **more: Any) -> Box:
    return Box(place, start, "/bin/sh", "-c", script, "a-script", **more)


def test_both_streams_are_one_in_order(tmp_path: Path, start: list[str]) -> None:
    code, out, note = sh(tmp_path, start, ORDER).run()
    assert (code, note["status"], note["told"], note["left"]) == (0, 0, [], [])
    assert out.decode().split("\n") == [f"{name} {n}" for n in range(1, 10) for name in ("out", "err")] + [""]


def test_codes_and_signals_are_told(tmp_path: Path, start: list[str]) -> None:
    code, _, note = sh(tmp_path, start, "exit 255").run()
    assert (code, note["status"]) == (255, 255 << 8)
    code, _, note = sh(tmp_path, start, "kill -9 $$").run()
    assert (code, note["status"]) == (137, 9)


def test_a_script_is_deaf_to_nothing_and_finds_its_folder(tmp_path: Path, start: list[str]) -> None:
    script = "cat; pwd; umask; grep -E '^Sig(Ign|Blk)' /proc/self/status; echo $FROM_IMAGE"
    words = sh(tmp_path, start, script).run()[1].decode().split()
    assert words[:2] == [str(tmp_path), "0077"]
    assert words[2::2] == ["SigBlk:", "SigIgn:", "yes"]
    system = 0b11 << 31  # two that the C library keeps for itself; the caller of the tests may have left them ignored
    assert [int(signals, 16) & ~system for signals in words[3::2]] == [0, 0]


def test_what_cannot_be_started_is_told(tmp_path: Path, start: list[str]) -> None:
    code, _, note = Box(tmp_path, start, "no-such-program").run()
    assert code == 127
    assert note["trouble"] == "there is no program no-such-program on the PATH of the run"
    assert "status" not in note
    code, _, note = sh(tmp_path, start, "true", folder=str(tmp_path / "gone")).run()
    assert code == 127
    assert "gone" in note["trouble"] or "No such file" in note["trouble"]


def test_any_bytes_come_through(tmp_path: Path, start: list[str]) -> None:
    """As they travel: UTF-8, and single surrogates for what is no UTF-8."""
    words = ["é", "\udcff\udc80", "a\nb", "'\"$x"]
    folder = tmp_path / "é\udcff"
    folder.mkdir()
    script = 'printf "%s\\n" "$*"; printf "%s\\n" "$NAME"; printf "%s" "$PWD"'
    asked = {"env": {"NAME": words[1]}, "folder": str(folder)}
    code, out, _ = Box(tmp_path, start, "/bin/sh", "-c", script, "sh", *words, **asked).run()
    assert code == 0
    assert out == b"\n".join([b"\xc3\xa9 \xff\x80 a\nb '\"$x", b"\xff\x80", os.fsencode(folder)])


def test_folders_to_look_in_come_before_those_of_the_image(tmp_path: Path, start: list[str]) -> None:
    program = tmp_path / "tool"
    program.write_text('#!/bin/sh\necho "ours $LIBRARIES $NEW"\n')
    program.chmod(0o755)
    looking = {"PATH": [str(tmp_path)], "LIBRARIES": ["/a", "/b"], "NEW": ["/c"], "FROM_IMAGE": []}
    assert Box(tmp_path, start, "tool", first=looking).run()[1] == b"ours /a:/b:/image/lib /c\n"


def test_a_stream_of_its_own_is_used_and_the_end_is_said(tmp_path: Path, start: list[str]) -> None:
    stream, ended = tmp_path / "stream", tmp_path / "ended"
    os.mkfifo(stream)
    os.mkfifo(ended)
    reading = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in (stream, ended)]
    code, out, _ = sh(tmp_path, start, ORDER, stream=str(stream), ended=str(ended)).run()
    assert (code, out) == (0, b"")
    assert os.read(reading[0], 65536).count(b"\n") == 18
    assert os.read(reading[1], 10) == b"!"
    for fd in reading:
        os.close(fd)
    assert sh(tmp_path, start, "true", ended=str(ended)).run()[0] == 0, "nobody has to listen"


def test_stop_reaches_all_processes_of_the_container(tmp_path: Path, first: list[str]) -> None:
    """Also who has left the script's session."""
    (tmp_path / "listen").write_text(LISTEN)
    box = sh(tmp_path, first, "setsid sh listen child & exec sh listen script")
    with box.start() as process:
        assert process.stdout is not None
        said = b""
        while said.count(b"ready\n") < 2:
            said += os.read(process.stdout.fileno(), 65536)
        [inside] = _children(process.pid)
        os.kill(inside, signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert err == b""
    assert {b"child is told", b"script is told"} <= set((said + out).split(b"\n"))
    note = box.note()
    assert (process.returncode, note["status"] >> 8, note["told"]) == (5, 5, [15])


def test_orphans_are_collected(tmp_path: Path, first: list[str]) -> None:
    """Twenty of them end while the script runs; it waits until no dead one is to be seen."""
    script = (
        "for n in $(seq 20); do (sh -c 'touch orphan$0' $n &); done; while [ $(ls -d orphan* | wc -l) != 20 ] || "
        "grep -qs '^State:.Z' /proc/[0-9]*/status; do sleep 0.01; done 2>/dev/null; echo all"
    )
    code, out, _ = sh(tmp_path, first, script).run()
    assert (code, out) == (0, b"all\n")


def test_what_is_left_is_told_and_ended(tmp_path: Path, first: list[str]) -> None:
    waits = "while :; do sleep 1; done\n"
    (tmp_path / "polite").write_text(f"touch there\n{waits}")
    (tmp_path / "rude").write_text(f"trap '' TERM\ntouch deaf\n{waits}")
    script = "setsid sh polite & setsid sh rude & while ! [ -e there -a -e deaf ]; do sleep 0.01; done; exit 4"
    code, _, note = sh(tmp_path, first, script, grace=0.2).run()
    assert code == 4
    assert {"sh polite", "sh rude"} <= set(note["left"])
    assert [pid for pid in Path("/proc").glob("[0-9]*/cwd") if _leads_to(pid, tmp_path)] == []


def test_nothing_of_the_machine_is_told_where_its_processes_are_in_sight(tmp_path: Path, python: str) -> None:
    box = sh(tmp_path, [python], "echo ready; while [ ! -e go ]; do sleep 0.02; done; exit 6")
    with box.start() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGTERM)
        (tmp_path / "go").touch()
        process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, box.note()["told"]) == (6, [15])


def test_folders_are_given_to_their_owner(tmp_path: Path, start: list[str]) -> None:
    if os.geteuid():
        pytest.skip("NOT TESTED: only root gives files away")
    work = tmp_path / "work"
    work.mkdir()
    script = "mkdir -p d/e; touch d/e/f; ln -s /etc/passwd link; ln -s d/e inner"
    box = sh(tmp_path, start, script, folder=str(work), folders=[str(work)], after=[12345, 54321])
    owner = os.stat("/etc/passwd").st_uid
    assert box.run()[0] == 0
    found = [work, *work.rglob("*")]
    assert len(found) == 6
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in found} == {(12345, 54321)}
    assert os.stat("/etc/passwd").st_uid == owner


def test_a_note_is_there_whole_or_not_at_all(tmp_path: Path, python: str) -> None:
    """Killed before the script has ended, it leaves none."""
    with sh(tmp_path, [python], "echo ready; exec sleep 1000").start() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        [script] = _children(process.pid)
        process.kill()
        process.wait(PATIENCE_S)
        os.kill(script, signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_the_gpu_is_touched_before_the_script_and_not_in_its_log(tmp_path: Path, start: list[str]) -> None:
    """By the script's own variables; what start files of its Python print is left out."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stdout.write('noise\\n')")
    more = {"note": str(inside / "note"), "env": {"PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "7"}}
    box = sh(tmp_path, start, f"cat {inside}/touch > kept; echo hello", **more)
    box.ask["touch"] = [start[-1], "-B", os.fsdecode(probe_run.PROGRAM), "look"]
    with box.start() as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, b"hello\n", b"")
    assert "noise" in (tmp_path / "kept").read_text()
    told = probe_run.told(os.fsencode(tmp_path))
    assert told is not None
    assert (told["ok"], told["facts"]["visible"]) == (False, "7")
    assert told["why"].startswith("there is no GPU in the container: NVIDIA's driver is not in it")
    assert json.loads((inside / "note").read_text())["left"] == []


def test_failing_gpu_probe_does_not_stop_the_script(tmp_path: Path, start: list[str]) -> None:
    (tmp_path / "inside").mkdir()
    for words in (["/no/such/python"], ["/bin/sh", "-c", "echo boom; kill -11 $$"]):
        box = sh(tmp_path, start, "echo hello", note=str(tmp_path / "inside" / "note"), touch=words)
        with box.start() as process:
            assert process.communicate(timeout=PATIENCE_S) == (b"hello\n", b"")
        told = probe_run.told(os.fsencode(tmp_path))
        assert told is not None
        assert (told["ok"], told["facts"]) == (True, {})
        assert "the GPU test did not finish" in told["why"]


def test_a_touch_that_hangs_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    hangs = ["/bin/sh", "-c", "trap '' TERM; exec sleep 1000"]
    box = sh(tmp_path, [*first_words(), python_of("3.13")], "echo hello", touch=hangs)
    box.ask["note"] = str(tmp_path / "inside" / "note")
    with box.start() as process:
        assert process.communicate(timeout=PATIENCE_S) == (b"hello\n", b"")
    told = probe_run.told(os.fsencode(tmp_path))
    assert told is not None
    assert (told["ok"], "did not respond in the container within 20 s" in told["why"]) == (False, True)


def test_a_stop_that_comes_while_the_gpu_is_touched_reaches_the_script(tmp_path: Path, first: list[str]) -> None:
    slow = ["/bin/sh", "-c", f"touch {tmp_path}/touched; sleep 1000"]
    box = sh(tmp_path, first, "sleep 1000", touch=slow)
    with box.start() as process:
        eventually((tmp_path / "touched").exists, PATIENCE_S)
        [inside] = _children(process.pid)
        os.kill(inside, signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    note = box.note()
    assert (process.returncode, note["status"], note["told"]) == (143, 15, [15])


def test_without_a_word_it_does_nothing(python: str) -> None:
    argv = [python, "-E", "-s", "-S", "-B", str(INSIDE)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (1, b"holdfast: no input on stdin\n")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _leads_to(link: Path, folder: Path) -> bool:
    try:
        return link.readlink() == folder
    except OSError:
        return False
