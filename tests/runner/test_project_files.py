"""Files that a script writes outside outputs/: they become results, and what does not is named with its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, Run, post_fixture, sha256, stop_both  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

FILES = {b"config.json": b'{"lr": 1}', b"pkg/same.py": b"x = 1\n", b"pkg/other.py": b"y = 2\n"}


def _kept(run: Run) -> dict[str, dict[str, object]]:
    return {str(row["project"]): row for row in run.outputs.values() if "project" in row}


def test_new_and_changed_files_are_kept_and_unchanged_ones_are_not(post: Post) -> None:
    run = post.run(
        "import os\n"
        "os.makedirs('checkpoints'); open('checkpoints/last.pt', 'w').write('weights')\n"
        "open('config.json', 'w').write('{\"lr\": 2}')\n"
        "open('pkg/same.py', 'w').write('x = 1\\n')\n"
        "os.remove('pkg/other.py'); open('outputs/model', 'w').write('m')\n",
        files=FILES,
    )
    assert set(run.outputs) == {".project/checkpoints/last.pt", ".project/config.json", "model"}
    assert set(_kept(run)) == {"checkpoints/last.pt", "config.json"}
    assert _kept(run)["checkpoints/last.pt"]["sha256"] == sha256(b"weights")
    assert (run.folder / "outputs/.project/config.json").read_bytes() == b'{"lr": 2}'
    event = run.event("kept")
    assert (event["files"], event["bytes"], event["not_kept"]["files"]) == (2, 16, 0)
    assert not (run.folder / "work").exists()


def test_file_changed_with_its_size_and_time_kept_counts_as_changed(post: Post) -> None:
    run = post.run(
        "import os\n"
        "before = os.stat('config.json')\n"
        "open('config.json', 'w').write('{\"lr\": 9}')\n"
        "os.utime('config.json', ns=(before.st_atime_ns, before.st_mtime_ns))\n",
        files=FILES,
    )
    assert set(_kept(run)) == {"config.json"}


def test_hard_linked_and_set_user_id_files_are_stored_as_plain_copies(post: Post, tmp_path: Path) -> None:
    outside = tmp_path / "ds.bin"
    outside.write_bytes(b"data" + bytes(3 << 20))
    run = post.run(
        "import os\n"
        f"for name in ('ckpt.bin', 'outputs/ds.bin'): os.link({str(outside)!r}, name)\n"
        "open('outputs/tool', 'w').write('t'); os.chmod('outputs/tool', 0o6755)\n"
    )
    folder = run.folder / "outputs"
    for name in (".project/ckpt.bin", "ds.bin"):
        assert (folder / name).read_bytes() == outside.read_bytes()
        assert (folder / name).stat().st_nlink == 1
        assert run.outputs[name]["mtime_ns"] == (folder / name).stat().st_mtime_ns == outside.stat().st_mtime_ns
    assert outside.stat().st_nlink == 1
    assert (folder / "tool").stat().st_mode & 0o7700 == 0o700
    assert run.outputs["tool"]["sha256"] == sha256(b"t")


def test_run_that_writes_only_outputs_has_no_event_about_other_files(post: Post) -> None:
    run = post.run("open('outputs/model', 'w').write('m')", files=FILES)
    assert "kept" not in run.types
    assert list(run.outputs) == ["model"]


def test_caches_and_environments_are_ignored_and_counted(post: Post) -> None:
    run = post.run(
        "import os\n"
        "names = '__pycache__/a.pyc env/pyvenv.cfg .cache/blob tags/CACHEDIR.TAG deep/__pycache__/b'\n"
        "for name in names.split():\n"
        "    os.makedirs(os.path.dirname(name)); open(name, 'w').write('12345')\n"
        "open('deep/result', 'w').write('r')\n"
    )
    assert set(_kept(run)) == {"deep/result"}
    ignored = run.event("kept")["ignored"]
    assert {row["path"] for row in ignored["paths"]} == {
        *("__pycache__/", "env/", ".cache/", "tags/", "deep/__pycache__/")
    }
    assert (ignored["files"], ignored["bytes"]) == (5, 25)
    assert not (run.folder / "work").exists()


@ONCE
def test_rules_of_the_user_ignore_more_and_bring_back_what_is_built_in(post: Post) -> None:
    run = post.run(
        "import os\n"
        "for name in ('data/a', 'pkg/data/b', 'x.tmp', 'keep.tmp', '.cache/c'):\n"
        "    os.makedirs(os.path.dirname(name) or '.', exist_ok=True); open(name, 'w').write('1')\n"
        "open('pkg/same.py', 'w').write('changed')\n",
        files=FILES,
        keep={"ignore": ["/data/", "*.tmp", "!keep.tmp", "!.cache", "pkg/*.py"]},
    )
    assert set(_kept(run)) == {"pkg/data/b", "keep.tmp", ".cache/c"}


@ONCE
def test_newest_files_within_the_limit_are_kept_and_the_others_stay_and_are_named(post: Post) -> None:
    run = post.run(
        "import os\n"
        "os.makedirs('data'); os.makedirs('checkpoints')\n"
        "for number, name in enumerate(['data/a', 'data/b', 'checkpoints/1.pt', 'checkpoints/2.pt', 'huge']):\n"
        "    open(name, 'w').write('x' * (2000 if name == 'huge' else 400))\n"
        "    os.utime(name, (number, number))\n",
        keep={"limit": 1000},
    )
    assert run.event("closed")["outcome"] == "completed"
    assert set(_kept(run)) == {"checkpoints/1.pt", "checkpoints/2.pt"}
    left = run.event("kept")["not_kept"]
    assert left["paths"] == [
        {"path": "huge", "files": 1, "bytes": 2000},
        {"path": "data/", "files": 2, "bytes": 800},
    ]
    assert (left["files"], left["bytes"], left["more"]) == (3, 2800, 0)
    assert (run.folder / "work/huge").stat().st_size == 2000


@ONCE
def test_folder_of_more_files_than_the_limit_is_left_whole_and_others_are_kept(post: Post) -> None:
    run = post.run(
        "import os\n"
        "open('model', 'w').write('m'); os.makedirs('data/x')\n"
        "for number in range(6): open('data/x/%d' % number, 'w').write('d')\n",
        keep={"files": 5},
    )
    assert set(_kept(run)) == {"model"}
    assert run.event("kept")["not_kept"]["paths"] == [{"path": "data/", "files": 6, "bytes": 6}]


@ONCE
def test_limit_of_zero_keeps_nothing_and_frees_the_folder(post: Post) -> None:
    run = post.run("open('model', 'w').write('m')", keep={"limit": 0})
    assert not run.outputs
    assert run.event("kept")["not_kept"]["files"] == 1
    assert not (run.folder / "work").exists()


def test_odd_files_outside_outputs_neither_hang_nor_hide_the_others(post: Post) -> None:
    run = post.run(
        "import os, socket\n"
        "os.mkdir('d'); os.symlink('..', 'd/up'); os.symlink('/etc', 'etc'); os.symlink('last.pt', 'latest')\n"
        "os.mkfifo('pipe'); open(b'caf\\xe9\\\\x', 'w').write('2'); open('n' * 252, 'w').write('3')\n"
        "os.mkdir('outputs/.project'); open('outputs/.project/own', 'w').write('4')\n"
    )
    assert run.event("closed")["outcome"] == "completed"
    kept = _kept(run)
    assert set(kept) == {"d/up", "etc", "latest", "pipe", "caf\udce9\\x", "n" * 252}
    assert kept["etc"]["link"] == "/etc"
    assert kept["pipe"]["skipped"] == "not a plain file"
    assert "project" not in run.outputs[".project/own"]
    assert run.outputs[".project-1/latest"]["project"] == "latest"


@ONCE
def test_linked_folder_and_what_is_written_in_it_are_left_alone(post: Post) -> None:
    data = post.place / "data"
    data.mkdir()
    run = post.run("open('data/new', 'w').write('1')", links={"data": str(data)})
    assert not run.outputs
    assert (data / "new").read_text() == "1"


@ONCE
@pytest.mark.parametrize("end", ["fails", "timeout", "canceled"])
def test_files_of_a_run_that_does_not_complete_are_kept(post: Post, end: str) -> None:
    text = "import sys, time\nopen('last.pt', 'w').write('w'); print('up', flush=True)\n"
    if end == "fails":
        run = post.run(text + "sys.exit(3)")
    elif end == "timeout":
        run = post.run(text + "time.sleep(600)", timeout=1.0, timeout_text="1s")
    else:
        run = post.start(post.script(text + "time.sleep(600)"))
        run.wait_for_log(b"up")
        post.stop(run)
        run.wait()
    assert run.event("closed")["outcome"] == {"canceled": "canceled"}.get(end, "failed")
    assert set(_kept(run)) == {"last.pt"}


@ONCE
def test_files_are_kept_when_a_client_ends_a_run_whose_watchers_are_stopped(post: Post) -> None:
    text = "import os, time\nopen('last.pt', 'w').write('w'); print('up', flush=True)\ntime.sleep(600)"
    run = post.start(post.script(text, grace=0.2))
    run.wait_for_log(b"up")
    stop_both(run)
    post.stop(run)
    run.wait_for_end()
    assert run.event("closed")["outcome"] == "canceled"
    assert set(_kept(run)) == {"last.pt"}
