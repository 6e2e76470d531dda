"""Code comes back as a run saw it, and nothing is lost on the way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Desk


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_restore_brings_code_back_and_saves_what_was_there(desk: Desk) -> None:
    desk.script("print('first')")
    desk.script("one", "package/module.py")
    (desk.project / "run.sh").write_text("#!/bin/sh\n")
    (desk.project / "run.sh").chmod(0o755)
    desk.submit("train.py")
    first = content(desk.project)

    desk.script("print('second, never submitted')")
    (desk.project / "package" / "module.py").unlink()
    (desk.project / "package").rmdir()
    desk.script("new", "extra/deep/new.py")
    (desk.project / "outputs").mkdir()
    (desk.project / "outputs" / "model").write_text("mine")
    (desk.project / "docs").mkdir()
    (desk.project / "docs" / "notes.md").write_text("mine too")
    edited = content(desk.project)

    result = desk.holdfast("project", "restore", "--run-id", "1")
    assert result.code == 0, result.err
    now = content(desk.project)
    assert now == {**first, "outputs/model": b"mine", "docs/notes.md": b"mine too"}
    assert os.access(desk.project / "run.sh", os.X_OK)
    assert not (desk.project / "extra").exists()

    saved = next(line for line in result.err.splitlines() if "--saved" in line).split()[-1]
    back = desk.holdfast("restore", "--saved", saved)
    assert back.code == 0, back.err
    assert content(desk.project) == edited


def test_what_a_restore_saved_survives_prune(desk: Desk) -> None:
    desk.script("print('first')")
    desk.submit("train.py")
    desk.script("print('only here')")
    saved = desk.holdfast("restore", "-r", "1").err.splitlines()[0].split()[-1]
    for path in (desk.home / "objects").rglob("*"):
        os.utime(path, (0, 0))
    desk.holdfast("store", "prune")
    assert desk.holdfast("restore", "--saved", saved).code == 0
    assert "only here" in (desk.project / "train.py").read_text()


def test_restore_into_a_new_folder_leaves_the_project_alone(desk: Desk, tmp_path: Path) -> None:
    desk.script("print('first')")
    desk.submit("train.py")
    desk.script("print('second')")
    target = tmp_path / "old"
    assert desk.holdfast("restore", "-r", "1", "--to", str(target)).code == 0
    assert "first" in (target / "train.py").read_text()
    assert "second" in (desk.project / "train.py").read_text()
    assert desk.holdfast("restore", "-r", "1", "--to", str(target)).code == 2


def test_a_damaged_store_changes_nothing(desk: Desk) -> None:
    desk.script("print('first')")
    (desk.project / "data").write_text("precious")
    desk.submit("train.py")
    desk.script("print('second')")
    (desk.project / "data").write_text("other")
    for path in (desk.home / "objects").rglob("*"):
        if path.is_file() and path.read_bytes() == b"precious":
            path.chmod(0o600)
            path.write_bytes(b"flipped!")
    before = content(desk.project)
    result = desk.holdfast("restore", "-r", "1")
    assert result.code == 74
    assert content(desk.project) == before


def test_diff_between_runs_and_with_the_project(desk: Desk) -> None:
    desk.script("print('one')\nprint('same')\n")
    (desk.project / "weights.bin").write_bytes(b"\0\1")
    desk.submit("train.py")
    desk.script("print('two')\nprint('same')\n")
    (desk.project / "weights.bin").write_bytes(b"\0\1\2")
    desk.submit("train.py")
    result = desk.holdfast("diff", "-r", "1", "-r", "2")
    assert result.code == 1
    lines = result.text.splitlines()
    assert "-print('one')" in lines
    assert "+print('two')" in lines
    assert " print('same')" in lines
    assert "binary weights.bin: 2 bytes -> 3 bytes" in lines
    assert desk.holdfast("diff", "-r", "2").code == 0
    desk.script("print('three')\n")
    assert "+print('three')" in desk.holdfast("diff").text


def test_a_run_of_another_project_is_not_restored_over_this_one(desk: Desk, tmp_path: Path) -> None:
    desk.script("print('here')")
    desk.submit("train.py")
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text("print('there')")
    desk.submit("train.py", cwd=other)
    there = desk.holdfast("history", "last", cwd=other).json["run_id"]
    result = desk.holdfast("restore", "-r", there)
    assert result.code == 2
    assert "--to" in result.err
    assert "here" in (desk.project / "train.py").read_text()


def test_a_forgotten_data_file_is_not_read_without_consent(desk: Desk) -> None:
    desk.script("print(1)")
    assert desk.submit("train.py").code == 0
    desk.script("print(2)")
    with desk.project.joinpath("forgotten.bin").open("wb") as sink:
        sink.truncate(1 << 40)
    for command in ("diff", "restore"):
        result = desk.holdfast(command, "-r", "last")
        assert result.code == 2, result
        assert "forgotten.bin" in result.err
        assert "--yes" in result.err
    assert desk.project.joinpath("train.py").read_text() == "print(2)"


def ignored_since_the_first_run(desk: Desk) -> None:
    desk.script("print(1)")
    desk.script("old data", "data/in.csv")
    assert desk.submit("train.py").code == 0
    desk.script("data/\n.cache\n", ".gitignore")
    desk.script("NEW DATA, a week of work", "data/in.csv")
    desk.script("only here", "data/more.csv")


def test_restore_leaves_files_that_are_ignored_now(desk: Desk) -> None:
    ignored_since_the_first_run(desk)
    result = desk.holdfast("restore", "1")
    assert result.code == 0, result.err
    assert (desk.project / "data/in.csv").read_text() == "NEW DATA, a week of work"
    assert "not touched, because they are ignored and not saved: data/in.csv;" in result.err
    assert not (desk.project / ".gitignore").exists()


def test_restore_leaves_files_that_the_run_ignored(desk: Desk) -> None:
    ignored_since_the_first_run(desk)
    desk.submit("train.py")
    edited = content(desk.project)
    saved = next(line for line in desk.holdfast("restore", "1").err.splitlines() if "--saved" in line).split()[-1]
    back = desk.holdfast("restore", "2")
    assert back.code == 0, back.err
    assert content(desk.project) == edited
    desk.holdfast("restore", "1")
    assert desk.holdfast("restore", "--saved", saved).code == 0
    assert content(desk.project) == edited


def test_restore_leaves_what_the_run_had_by_a_link(desk: Desk) -> None:
    desk.script("print(1)")
    desk.script("rows", "data/in.csv")
    assert desk.submit("--link", "data", "train.py").code == 0
    desk.script("print(2)")
    assert desk.holdfast("restore", "1").code == 0
    assert (desk.project / "train.py").read_text() == "print(1)"
    assert (desk.project / "data/in.csv").read_text() == "rows"


def test_restore_writes_nothing_through_or_over_an_ignored_link_or_file(desk: Desk, tmp_path: Path) -> None:
    for name in ("data/in.csv", "deep/er/a.csv", "plain"):
        desk.script("old", name)
    desk.script("print(1)")
    assert desk.submit("train.py").code == 0
    for name in ("data/in.csv", "deep/er/a.csv", "plain"):
        (desk.project / name).unlink()
    (desk.project / "data").rmdir()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "in.csv").write_text("shared by all")
    (desk.project / "data").symlink_to(tmp_path / "disk")
    (desk.project / "deep/er").rmdir()
    desk.script("a file now", "deep/er")
    desk.script("mine", "plain/inner")
    desk.script("/data\n/deep/er\ninner\n", ".gitignore")
    desk.script("print(2)")
    result = desk.holdfast("restore", "1")
    assert result.code == 0, result.err
    assert (tmp_path / "disk" / "in.csv").read_text() == "shared by all"
    assert (desk.project / "deep/er").read_text() == "a file now"
    assert (desk.project / "plain/inner").read_text() == "mine"
    assert (desk.project / "train.py").read_text() == "print(1)"
    assert "data/in.csv, deep/er/a.csv, plain;" in result.err


@pytest.mark.timeout(60)
def test_restore_does_not_wait_for_a_pipe_in_the_place_of_a_file(desk: Desk) -> None:
    desk.script("print(1)")
    (desk.project / "data.csv").write_text("1,2\n")
    assert desk.submit("train.py").code == 0
    (desk.project / "data.csv").unlink()
    os.mkfifo(desk.project / "data.csv")
    restored = desk.holdfast("restore", "-r", "last")
    assert restored.code == 0, restored
    assert "data.csv; --to DIR has the run's own" in restored.err


@pytest.mark.parametrize("value", ["text", ["text"], {"name": "data"}, [{"name": 1}], [{"link": ["x"]}], 1])
def test_restore_and_reproduce_take_a_plan_of_any_form(desk: Desk, value: object) -> None:
    """The plan of a run may come from an archive or from another machine."""
    desk.script("print('first')")
    assert desk.submit("train.py").code == 0
    (path,) = desk.home.glob("runs/*/a1/plan.json")
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({**plan, "links": value, "data": value}))
    desk.script("print('second')")
    assert desk.holdfast("restore", "-r", "1").code == 0
    assert "first" in (desk.project / "train.py").read_text()
    assert desk.holdfast("reproduce", "-r", "1").code != 70
