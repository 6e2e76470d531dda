"""The plan of a run, and the script that a command line means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import planning
from holdfast.errors import ConfigError, UsageError
from holdfast.model import Identity, Job, Project
from holdfast.ports import RuntimeParts
from holdfast.runtimes.python import PythonRuntime

PROJECT = Project("/p", "id", "digits")


@pytest.mark.parametrize(
    ("length", "text"),
    [
        *((86400, "1d"), (172800, "2d"), (90000, "25h"), (3600, "1h"), (5400, "90m"), (60, "1m"), (61, "61s")),
        *((59, "59s"), (0.5, "0.5s"), (0, "0s")),
    ],
)
def test_duration_is_written_in_its_largest_whole_unit(length: float, text: str) -> None:
    assert planning.duration_text(length) == text


def test_duration_that_is_none_or_zero_is_refused() -> None:
    assert planning.seconds("1h30m", "x") == 5400
    for text in ("soon", "0", ""):
        with pytest.raises(ConfigError, match="is not a duration"):
            planning.seconds(text, "x")


def test_share_is_below_account_workspace_and_project() -> None:
    assert planning.share_directory("~/share", PROJECT) == "~/share/local/default/digits"
    assert planning.share_directory("", PROJECT) is None
    assert planning.share_directory(None, PROJECT) is None


def test_plan_states_its_timeout_as_text() -> None:
    def plan(timeout: float | None) -> str:
        job = Job("train.py", ("--lr", "1"), "local", "local", {"B": "2", "A": "1"}, timeout_s=timeout)
        identity = Identity("0" * 32, "digits_1", 1)
        made = planning.make_plan(
            job,
            PROJECT,
            identity,
            "1" * 64,
            runtime=PythonRuntime(RuntimeParts("python3")),
            share_base=None,
            shims=None,
        )
        assert (made.attempt, made.env, made.argv[-3:]) == ("a1", ("A", "B"), ("train.py", "--lr", "1"))
        return made.timeout_text

    assert plan(7200) == "2h"
    assert plan(None) == ""


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "project" / "code").mkdir(parents=True)
    for name in ("outside.py", "project/train.py", "project/code/test.py", "project/code/train2.py"):
        (tmp_path / name).touch()
    (tmp_path / "project" / "gone.py").symlink_to("nowhere")
    os.mkfifo(tmp_path / "project" / "pipe.py")
    return str(tmp_path / "project")


@pytest.mark.parametrize(
    ("folder", "named", "expected"),
    [
        ("", "train.py", "train.py"),
        ("", "code/test.py", "code/test.py"),
        ("", "code\\test.py", "code/test.py"),
        ("code", "test.py", "code/test.py"),
        ("code", "../train.py", "train.py"),
        ("code", "code\\test.py", "code/test.py"),
        ("code", "train.py", "train.py"),
    ],
)
def test_script_is_found_from_any_folder_and_in_either_spelling(
    root: str, folder: str, named: str, expected: str
) -> None:
    assert planning.script_path(root, os.path.join(root, folder), named) == expected


def test_script_outside_the_project_is_refused(root: str) -> None:
    with pytest.raises(UsageError, match="outside the project"):
        planning.script_path(root, root, "../outside.py")


@pytest.mark.parametrize("named", ["linked.py", "linked/other.py"])
def test_script_that_is_a_link_out_of_the_project_is_refused(tmp_path: Path, named: str) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "other.py").write_text("print()\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "linked.py").symlink_to("../common/other.py")
    (tmp_path / "project" / "linked").symlink_to(tmp_path / "common")
    with pytest.raises(ConfigError, match="link that leads out of the project") as caught:
        planning.script_path(str(tmp_path / "project"), str(tmp_path / "project"), named)
    assert caught.value.answer == str(tmp_path / "common" / "other.py")


def test_script_that_is_a_link_within_the_project_is_taken(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "again.py").symlink_to("train.py")
    assert planning.script_path(str(tmp_path), str(tmp_path), "again.py") == "again.py"


def test_script_that_is_no_file_is_refused_with_the_reason(root: str) -> None:
    for named, reason in (("gone.py", "is a link to a file that does not exist"), ("pipe.py", "is not a regular file")):
        with pytest.raises(ConfigError, match=f"{named} {reason}"):
            planning.script_path(root, root, named)


def test_missing_script_names_the_nearest_or_those_there_are(root: str, tmp_path: Path) -> None:
    def hint(folder: str, named: str) -> str:
        with pytest.raises(UsageError, match="no such script") as caught:
            planning.script_path(root, folder, named)
        return caught.value.hint

    code = os.path.join(root, "code")
    assert hint(root, "trian.py") == "did you mean train.py?"
    assert hint(code, "x") == "scripts here: test.py, train2.py"
    assert hint(root, "code") == "scripts here: gone.py, pipe.py, train.py"
    assert hint(str(tmp_path / "project" / ".."), "x.txt") == "scripts here: outside.py"
    for name in ("test.py", "train2.py"):
        os.remove(os.path.join(code, name))
    assert hint(code, "x") == "there are no scripts here"
    for name in ("train.sh", "explore.ipynb"):
        Path(code, name).touch()
    assert hint(code, "x") == "scripts here: explore.ipynb, train.sh"
    for name in ("train.sh", "explore.ipynb"):
        os.remove(os.path.join(code, name))
    for number in range(10):
        Path(code, f"s{number}.py").touch()
    assert hint(code, "x").endswith("s6.py, s7.py")
