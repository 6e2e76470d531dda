"""Data of runs on this machine: the folder itself, in the state that was hashed."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING

import pytest

from conftest import Desk

if TYPE_CHECKING:
    from pathlib import Path

READ = "import os; print('read', open('data/set/a.txt').read(), os.environ['HOLDFAST_DATA_SET'])"
WRITE = "open('data/set/a.txt', 'w').write('other')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "sets" / "set"
    path.mkdir(parents=True)
    (path / "a.txt").write_text("content")
    return path


def configure(desk: Desk, data: str) -> None:
    config = desk.project / "aml_config"
    config.mkdir(exist_ok=True)
    (config / "local.runconfig").write_text(f"Target: local\nFramework: Python\ndata: {data}\n")


def test_local_run_uses_the_folder_itself_and_records_its_hash(desk: Desk, folder: Path) -> None:
    desk.script(READ)
    configure(desk, str(folder))
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert f"read content {folder}\n" in result.text
    [row] = desk.record()["data"]
    assert (row["name"], row["source"], row["files"], row["bytes"]) == ("set", str(folder), 1, 7)
    assert (desk.home / "data").exists() is False
    (folder / "a.txt").write_text("changed")
    assert desk.submit("train.py").code == 0
    assert desk.record()["data"][0]["tree"] != row["tree"]


def test_folder_of_the_project_is_linked_at_its_own_path_and_not_in_the_snapshot(desk: Desk) -> None:
    (desk.project / "images").mkdir()
    (desk.project / "images" / "a.txt").write_text("inside")
    desk.script("import os; print(os.path.islink('images'), open('images/a.txt').read())")
    configure(desk, "images")
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert "True inside\n" in result.text
    plan = desk.submit("--dry-run", "train.py").json
    assert plan["data"][0]["link"] == "images"
    assert plan["files"] == 3  # the script, the run configuration, the project's identity


def test_folder_that_a_script_changes_is_told_and_recorded(desk: Desk, folder: Path) -> None:
    desk.script(WRITE)
    result = desk.submit("--data", f"set={folder}", "train.py")
    assert result.code == 0, result
    assert "WARNING: data was written to while the script ran: set" in result.err
    assert desk.record()["data"][0]["changed"] is True


def test_reproduce_refuses_data_that_is_no_longer_the_same(desk: Desk, folder: Path) -> None:
    desk.script(READ)
    assert desk.submit("--data", f"set={folder}", "train.py").code == 0
    assert desk.holdfast("reproduce", "-r", "1").code == 0
    (folder / "a.txt").write_text("another")
    result = desk.holdfast("reproduce", "-r", "1")
    assert result.code == 65, result
    assert "the data set is not what the run used" in result.err


@pytest.mark.parametrize("kind", ["link", "pipe", "socket"])
def test_irregular_file_in_data_is_named_and_refused(desk: Desk, folder: Path, kind: str) -> None:
    path = folder / "deep" / "odd\nname"
    path.parent.mkdir()
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))
    desk.script(READ)
    result = desk.submit("--data", f"set={folder}", "train.py")
    assert result.code == 65, result
    assert f"{folder}: deep/odd\\nname" in result.err


def test_names_of_any_bytes_are_hashed_and_found(desk: Desk, folder: Path) -> None:
    (folder / os.fsdecode(b"two\nlines \xff")).write_text("odd")
    desk.script("import os; print(len(os.listdir('data/set')))")
    result = desk.submit("--data", f"set={folder}", "train.py")
    assert result.code == 0, result
    assert "2\n" in result.text
    assert desk.record()["data"][0]["files"] == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("missing/folder", "no such file or folder: missing/folder"),
        ("{'a b': images}", "cannot be the name of data"),
        ("{a-b: images, a_b: images}", "would have the same variable"),
        ("{x: {path_on_target: relative}}", "an absolute path on the target"),
        ("{all: .}", "this is the project itself"),
    ],
)
def test_wrong_data_in_a_run_configuration_is_refused_with_its_place(desk: Desk, data: str, message: str) -> None:
    (desk.project / "images").mkdir()
    desk.script(READ)
    configure(desk, data)
    result = desk.submit("train.py")
    assert result.code == 65, result
    assert message in result.err
    assert "local.runconfig" in result.err or str(desk.project) in result.err


def test_data_that_the_project_would_hide_is_refused(desk: Desk, folder: Path) -> None:
    (desk.project / "data" / "set").mkdir(parents=True)
    desk.script(READ)
    result = desk.submit("--data", f"set={folder}", "train.py")
    assert result.code == 65, result
    assert "the project has data/set itself" in result.err


def test_python_api_takes_data(desk: Desk, folder: Path) -> None:
    desk.script(READ)
    program = (
        "import holdfast, json, sys\n"
        "there = {'path_on_target': sys.argv[1]}\n"
        "run = holdfast.submit('train.py', target='local', data={'set': sys.argv[1], 'there': there}).wait()\n"
        "rows = run.record['data']\n"
        "print(json.dumps([run.status, [row['name'] for row in rows], rows[1]['path_on_target']]))"
    )
    result = desk.python(program, str(folder))
    assert result.code == 0, result
    assert json.loads(result.text.splitlines()[-1]) == ["Completed", ["set", "there"], str(folder)]


def test_data_list_of_this_machine_is_empty(desk: Desk) -> None:
    result = desk.holdfast("data", "list", "-c", "local", "-o", "json")
    assert (result.code, result.json) == (0, [])
