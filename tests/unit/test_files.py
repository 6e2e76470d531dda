"""Files that are replaced in one step."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.runner.store import files

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = [files.UNSYNCED, files.SYNCED, files.DURABLE]


@pytest.mark.parametrize("sync", LEVELS)
def test_content_is_replaced_and_no_temporary_is_left(tmp_path: Path, sync: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    files.write_whole(str(path), b"new", sync=sync)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("path", ["file", b"file"])
def test_relative_names_of_both_types(tmp_path: Path, path: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if isinstance(path, bytes):
        files.write_whole(path, b"new")
    else:
        files.write_whole(path, b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_old_content_stays_after_an_error(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(type(error)) as raised:
        _fail(str(path), error)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
    assert not isinstance(raised.value, OSError) or raised.value.filename == str(path)


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys\n"
        "from holdfast.runner.store import files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "try: files.write_whole(sys.argv[1], bytes(1 << 20))\n"
        "except OSError as error: sys.stdout.write(error.filename)\n"
    )
    path = str(tmp_path / "file")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert (done.stdout, os.listdir(tmp_path)) == (path, [])


def test_an_error_names_the_file_and_not_its_temporary(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as raised:
        files.write_whole(str(path), b"new")
    assert raised.value.filename == str(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as other:
        files.write_whole(str(tmp_path / "folder"), b"new")
    assert (other.value.filename, other.value.filename2) == (str(tmp_path / "folder"), None)
    assert os.listdir(tmp_path) == ["folder"]


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with files.WholeFile(str(path), new=True) as target:
        target.write(b"first")
    with pytest.raises(FileExistsError), files.WholeFile(str(path), new=True) as target:
        target.write(b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_mode_is_private_unless_told_otherwise(tmp_path: Path) -> None:
    files.write_whole(str(tmp_path / "private"), b"")
    files.write_whole(str(tmp_path / "program"), b"", 0o700)
    (tmp_path / "kept").touch()
    (tmp_path / "kept").chmod(0o664)
    files.write_whole(str(tmp_path / "kept"), b"", keep_mode=True)
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in os.scandir(tmp_path)}
    assert modes == {"private": 0o600, "program": 0o700, "kept": 0o664}


def test_the_longest_name_can_be_replaced(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127, "\udc80" * 255):
        files.write_whole(str(tmp_path / name), b"new")
        files.write_whole(os.fsencode(tmp_path / name), b"newer")
        assert (tmp_path / name).read_bytes() == b"newer"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "private").write_bytes(b"private")
    (tmp_path / "file").symlink_to("private")
    files.write_whole(str(tmp_path / "file"), b"new")
    files.replace_link(str(tmp_path / "file"), "elsewhere")
    assert os.readlink(tmp_path / "file") == "elsewhere"
    assert (tmp_path / "private").read_bytes() == b"private"
    assert sorted(os.listdir(tmp_path)) == ["file", "private"]


def test_a_note_that_the_disk_does_not_take_is_no_error(tmp_path: Path) -> None:
    files.note(str(tmp_path / "missing" / "note"), b"text")
    files.note(str(tmp_path / "note"), b"text")
    assert (tmp_path / "note").read_bytes() == b"text"


def test_temporaries_are_recognised_by_their_name() -> None:
    assert files.is_temporary(files.temporary_beside(b"/store/runs/file"))
    assert files.is_temporary(files.temporary_beside("/store/runs/file"))
    assert not files.is_temporary("/store/runs/file")


def _fail(path: str, error: BaseException) -> None:
    with files.WholeFile(path) as target:
        target.write(b"half")
        raise error


def killed_writer(path: Path) -> str:
    """The temporary that a writer of this file leaves behind when it is killed."""
    code = (
        "import os, signal, sys\nfrom holdfast.runner.store.files import WholeFile\n"
        "with WholeFile(sys.argv[1], keep_mode=True) as target:\n"
        "    target.write(b'half')\n    target.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    before = set(os.listdir(path.parent))
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    (left,) = set(os.listdir(path.parent)) - before
    return left


@pytest.mark.skipif(sys.platform == "win32", reason="NOT TESTED: Windows has no SIGKILL")
def test_next_writer_of_a_users_file_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 110)
    killed_writer(path)
    others = [f"{path.name[:100]}.{'0' * 16}.tmp.txt", f"x{path.name[:90]}.{'0' * 16}.tmp", "kept.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"kept")
    with files.WholeFile(str(path), keep_mode=True) as slow:
        slow.write(b"slow")
        files.write_whole(str(path), b"fast", keep_mode=True)
        assert len([name for name in os.listdir(tmp_path) if name.startswith("é")]) == 3  # the slow writer's stays
        assert path.read_bytes() == b"fast"
    assert path.read_bytes() == b"slow"
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, *others])
