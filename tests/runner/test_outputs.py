"""What the script leaves in outputs/: all of it is kept and named, and nothing in it can hurt the runner."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, post_fixture, sha256  # noqa: F401

from holdfast.runner.store.remove_tree import remove_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_outputs_are_kept_with_size_hash_and_time(post: Post) -> None:
    run = post.run(
        "import os\n"
        "os.makedirs('outputs/a/b'); os.chdir('/')\n"
        "place = os.environ['HOLDFAST_OUTPUTS']\n"
        "open(place + '/a/b/model', 'w').write('weights'); open(place + '/empty', 'w').close()\n"
    )
    assert list(run.outputs) == ["a/b/model", "empty"]
    model = run.outputs["a/b/model"]
    assert (model["size"], model["sha256"]) == (7, sha256(b"weights"))
    kept = run.folder / "outputs" / "a" / "b" / "model"
    assert kept.read_text() == "weights"
    assert model["mtime_ns"] == kept.stat().st_mtime_ns
    assert model["seen_ns"] >= model["mtime_ns"]
    assert not (run.folder / "workspace").exists()


def test_odd_files_neither_hang_nor_hide_the_others(post: Post) -> None:
    run = post.run(
        "import os, socket\n"
        "os.chdir('outputs')\n"
        "os.mkdir('loop'); os.symlink('..', 'loop/up'); os.symlink('self', 'self')\n"
        "os.symlink('/etc/passwd', 'passwd')\n"
        "os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('sock')\n"
        "open(b'new\\nline', 'w').write('1'); open(b'caf\\xe9', 'w').write('2'); open('-rf', 'w').write('3')\n"
    )
    closed = run.event("closed")
    assert closed["outcome"] == "completed"
    assert set(run.outputs) == {"loop/up", "self", "passwd", "pipe", "sock", "new\nline", "caf\udce9", "-rf"}
    assert run.outputs["loop/up"]["link"] == ".."
    assert run.outputs["passwd"]["link"] == "/etc/passwd"
    assert "sha256" not in run.outputs["passwd"]
    assert run.outputs["pipe"]["skipped"] == run.outputs["sock"]["skipped"] == "not a plain file"
    assert run.outputs["new\nline"]["sha256"] == sha256(b"1")
    assert run.outputs["caf\udce9"]["sha256"] == sha256(b"2")


def test_folders_nested_beyond_all_reason_do_not_lose_the_run(post: Post) -> None:
    run = post.run(
        "import os\n"
        "os.chdir('outputs')\n"
        "open('shallow', 'w').write('1')\n"
        "for _ in range(3000): os.mkdir('d'); os.chdir('d')\n"
        "open('deep', 'w').close()\n"
    )
    closed = run.event("closed")
    assert closed["outcome"] == "completed"
    assert run.outputs["shallow"]["size"] == 1
    assert any("too long" in str(row.get("skipped")) for row in run.outputs.values())
    remove_tree(os.fsencode(run.folder / "outputs"))
    assert not (run.folder / "outputs").exists()
    subprocess.run(["rm", "-rf", run.folder / "outputs"], check=True)  # no Python could


@pytest.mark.parametrize(
    ("doing", "words"),
    [
        ("shutil.rmtree('outputs')", "did not exist"),
        ("shutil.rmtree('outputs'); open('outputs', 'w').close()", "did not exist"),
        ("shutil.rmtree('outputs'); os.symlink('/etc', 'outputs')", "symbolic link to /etc;"),
        ("open('outputs/x', 'w').close(); os.makedirs('../../../outputs/in/the/way')", "could not be stored"),
    ],
    ids=["deleted", "file", "link", "place-taken"],
)
def test_outputs_that_cannot_be_kept_are_spoken_of_and_left_where_they_are(post: Post, doing: str, words: str) -> None:
    run = post.run(f"import os, shutil\n{doing}\nprint('ended')")
    closed = run.event("closed")
    assert (closed["outcome"], closed["exit_code"]) == ("completed", 0)
    assert run.log == b"ended\n"
    assert words in closed["outputs_trouble"]
    assert (run.folder / "workspace").exists()
    assert os.path.exists("/etc/passwd")


@ONCE
def test_a_run_without_trouble_says_nothing_of_it(post: Post) -> None:
    assert "outputs_trouble" not in post.run("pass").event("closed")


@pytest.mark.parametrize("last", ["pass", "os.chmod('outputs', 0o500)", "os.chmod('outputs', 0); os.chmod('.', 0o500)"])
def test_results_that_the_script_made_read_only_or_unreadable_are_kept(post: Post, tmp_path: Path, last: str) -> None:
    """The folders of a run belong to it; what a link leads to does not."""
    post.python = str(without_root_powers(post.python, tmp_path / "python"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    (outside / "file").chmod(0)
    outside.chmod(0o500)
    run = post.run(
        "import os\n"
        "for name in ('ro/sub/model.pt', 'closed/x', '.cache/in/blob', 'outputs/ro/y', 'outputs/closed/in/z'):\n"
        "    os.makedirs(os.path.dirname(name)); open(name, 'w').write('12')\n"
        "for name in ('locked', 'outputs/locked', 'config.json'):\n"
        "    open(name, 'w').write('12'); os.chmod(name, 0)\n"
        f"os.symlink({str(outside)!r}, 'link'); os.symlink({str(outside)!r}, 'outputs/link')\n"
        "os.symlink('locked', 'ro/other')\n"
        "for name in ('ro/sub', 'ro', 'outputs/ro'): os.chmod(name, 0o555)\n"
        "for name in ('closed', '.cache/in', 'outputs/closed/in', 'outputs/closed'): os.chmod(name, 0)\n" + last,
        files={b"config.json": b"original"},
    )
    assert "outputs_trouble" not in run.event("closed"), run.event("closed")
    names = {str(row.get("project", f"outputs/{name}")): row for name, row in run.outputs.items()}
    links = {"link", "outputs/link", "ro/other"}
    files = {"ro/sub/model.pt", "closed/x", "locked", "config.json"}
    files |= {"outputs/ro/y", "outputs/closed/in/z", "outputs/locked"}
    assert set(names) == files | links
    assert all(names[name]["sha256"] == sha256(b"12") for name in files)
    assert run.event("kept")["ignored"]["bytes"] == 2
    assert not (run.folder / "workspace").exists()
    assert (outside.stat().st_mode & 0o777, (outside / "file").stat().st_mode & 0o777) == (0o500, 0)


def test_what_cannot_be_read_is_named_once_with_the_reason(post: Post, tmp_path: Path) -> None:
    """Files that have other names outside stay as they are."""
    post.python = str(without_root_powers(post.python, tmp_path / "python"))
    outside = tmp_path / "outside"
    outside.write_text("2")
    run = post.run(
        "import os\n"
        "open('outputs/good', 'w').write('1')\n"
        f"for name in ('outputs/locked', 'other'): os.link({str(outside)!r}, name)\n"
        "os.chmod('other', 0)\n"
    )
    assert run.event("closed")["outcome"] == "completed"
    assert run.outputs["good"]["sha256"] == sha256(b"1")
    assert run.outputs["locked"]["skipped"] == run.outputs[".project/other"]["skipped"] == "Permission denied"
    assert run.event("closed")["outputs_trouble"].splitlines() == [
        "other could not be read: Permission denied",
        "outputs/locked could not be read: Permission denied",
    ]
    assert outside.stat().st_mode & 0o777 == 0


def without_root_powers(python: str, place: Path) -> Path:
    """Root reads everything; this interpreter is root without that power. For other users nothing changes."""
    words = f"setpriv --bounding-set=-dac_override,-dac_read_search {python}" if os.geteuid() == 0 else python
    place.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    place.chmod(0o755)
    return place
