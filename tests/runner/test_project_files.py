"""Files that a script writes outside outputs/: they become results, and what does not is named with its size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from runner_post import ONCE, Post, Run, post_fixture, sha256, stop_both  # noqa: F401

from holdfast.runner.store.remove_tree import remove_tree

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
    assert not (run.folder / "workspace").exists()


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
    assert all(row["built_in"] for row in ignored["paths"])
    assert (ignored["files"], ignored["bytes"]) == (5, 25)
    assert not (run.folder / "workspace").exists()


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
@pytest.mark.parametrize("lines", [[], ["x.tmp"]], ids=["built-in", "with .keepignore"])
def test_new_files_in_a_folder_of_the_project_with_the_name_of_a_cache_are_kept(post: Post, lines: list[str]) -> None:
    run = post.run(
        "open('.cache/new', 'w').write('1'); open('env/new', 'w').write('1')",
        files={b".cache/old": b"o", b"env/pyvenv.cfg": b"e"},
        keep={"ignore": lines},
    )
    assert set(_kept(run)) == {".cache/new", "env/new"}


@ONCE
def test_line_of_the_user_keeps_a_folder_that_looks_like_an_environment(post: Post) -> None:
    text = (
        "import os\nfor name in ('env', 'other', 'data'): os.mkdir(name); open(name + '/pyvenv.cfg', 'w').write('1')\n"
    )
    run = post.run(text, keep={"ignore": ["!env/", "data/"]})
    assert set(_kept(run)) == {"env/pyvenv.cfg"}
    assert run.event("kept")["ignored"]["paths"] == [
        {"path": "data/", "files": 1, "bytes": 1},
        {"path": "other/", "files": 1, "bytes": 1, "built_in": True},
    ]


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
    assert (run.folder / "workspace/above/work/huge").stat().st_size == 2000


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
    assert not (run.folder / "workspace").exists()


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


@pytest.mark.parametrize("folder", [".", "outputs"])
def test_files_behind_a_link_in_the_place_of_the_folder_stay_where_they_are(
    post: Post, tmp_path: Path, folder: str
) -> None:
    """As told for outputs/: what a link leads to belongs to others, and is neither moved nor removed."""
    outside = tmp_path / "outside"
    for name in ("file", "outputs/model", "outputs/checkpoints/last.pt", "deep/er/file"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(name)
    target = outside if folder == "." else outside / folder
    run = post.run(
        "import os\n"
        f"path = os.path.realpath({folder!r})\n"
        "os.rename(path, path + '.moved')\n"
        f"os.symlink({str(target)!r}, path)\n",
        files=FILES,
    )
    assert sorted(str(path.relative_to(outside)) for path in outside.rglob("*") if path.is_file()) == [
        *("deep/er/file", "file", "outputs/checkpoints/last.pt", "outputs/model"),
    ]
    assert run.event("closed")["outcome"] == "completed"
    assert "replaced by a symbolic link" in run.event("closed")["outputs_trouble"]
    assert "model" not in run.outputs


def test_removing_a_link_to_a_folder_leaves_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "file"
    outside.parent.mkdir()
    outside.write_text("x")
    link = tmp_path / "link"
    link.symlink_to(outside.parent)
    remove_tree(os.fsencode(link))
    assert not link.is_symlink()
    assert outside.read_text() == "x"


@pytest.mark.parametrize("name", ["checkpoints", "outputs", "log", "metrics", "workspace", "events.jsonl"])
@ONCE
def test_files_written_to_the_folders_above_are_kept_under_any_name(post: Post, name: str) -> None:
    """Names of the runner's own files among them: they are in other folders."""
    run = post.run(
        "import os\n"
        f"for top in ('..', '../..'):\n"
        f"    os.makedirs(f'{{top}}/{name}/sub..', exist_ok=True)\n"
        f"    open(f'{{top}}/{name}/sub../last.pt', 'w').write(top)\n"
        "print('done')\n"
    )
    assert run.event("closed")["outcome"] == "completed"
    assert "outputs_trouble" not in run.event("closed")
    kept = {path: str(row["sha256"]) for path, row in _kept(run).items()}
    assert kept == {
        f"above/{name}/sub../last.pt": sha256(b".."),
        f"above/above/{name}/sub../last.pt": sha256(b"../.."),
    }
    assert run.event("kept")["above"] == "above"
    assert not (run.folder / "workspace").exists()


@ONCE
def test_folder_above_has_another_name_among_results_where_the_project_has_one_of_that_name(post: Post) -> None:
    run = post.run("open('../model', 'w').write('m')\n", files={b"above/model": b"project"})
    assert set(_kept(run)) == {"above-1/model"}


@ONCE
def test_files_above_are_counted_against_the_limit_and_ignored_like_others(post: Post) -> None:
    run = post.run(
        "import os\n"
        "os.mkdir('../big'); os.mkdir('../.cache')\n"
        "for name in 'ab': open('../big/' + name, 'w').write(20 * 'x')\n"
        "open('../.cache/c', 'w').write('x'); open('../small', 'w').write('x')\n",
        keep={"limit": 10},
    )
    event = run.event("kept")
    assert set(_kept(run)) == {"above/small"}
    assert event["not_kept"]["paths"] == [{"path": "above/big/", "files": 2, "bytes": 40}]
    assert [row["path"] for row in event["ignored"]["paths"]] == ["above/.cache/"]


@pytest.mark.parametrize("replaced", ["..", "../.."])
@ONCE
def test_nothing_is_collected_through_a_link_in_the_place_of_a_folder_above(
    post: Post, tmp_path: Path, replaced: str
) -> None:
    foreign = tmp_path / "foreign"
    for folder in ("work/outputs", "above/work/outputs"):
        (foreign / folder).mkdir(parents=True)
        (foreign / folder / "private").write_text("private")
    run = post.run(
        "import os\n"
        f"above = os.path.abspath({replaced!r})\n"
        f"os.rename(above, above + '-moved'); os.symlink({str(foreign)!r}, above)\n"
    )
    assert run.outputs == {}
    assert "replaced by a symbolic link" in run.event("closed")["outputs_trouble"]
    assert len(list(foreign.rglob("private"))) == 2
