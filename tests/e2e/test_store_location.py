"""Which folder is the store: HOLDFAST_HOME, an existing ~/.holdfast, XDG_DATA_HOME, ~/.holdfast."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from at_terminal import at_terminal
from conftest import Desk

STORE = "store.json"
XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


@pytest.fixture
def data(desk: Desk, tmp_path: Path) -> Path:
    """Every XDG folder is set, HOLDFAST_HOME is not."""
    desk.script("import subprocess\nsubprocess.run(['holdfast', 'runs'], check=True)")
    desk.env.update({name: str(tmp_path / name) for name in XDG}, HOLDFAST_HOME="")
    return tmp_path / "XDG_DATA_HOME" / "holdfast"


def test_store_is_in_the_xdg_data_folder(desk: Desk, data: Path) -> None:
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert (data / STORE).is_file()
    assert data.stat().st_mode & 0o077 == 0
    assert list(desk.user_home.iterdir()) == []
    assert desk.holdfast("runs", "--columns", "run_number").json == [{"run_number": 1}]
    assert [name for name in XDG if (data.parents[1] / name).exists()] == ["XDG_DATA_HOME"]
    assert '"run_number": 1' in desk.holdfast("logs").text  # a command inside the run finds the same store


def test_existing_folder_in_the_home_directory_wins(desk: Desk, data: Path) -> None:
    (desk.user_home / ".holdfast").mkdir()
    assert desk.holdfast("config", "keepLimit", "1GB").code == 0
    assert (desk.user_home / ".holdfast" / STORE).is_file()
    assert not data.parent.exists()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *(("runs", 0), ("history list", 0), ("du", 0), ("config", 0), ("env list", 0), ("store verify", 0), ("gpu", 0)),
        *(("store prune --dry-run", 0), ("check", 0), ("info", 2), ("logs", 2), ("computetarget test --name local", 0)),
    ],
)
def test_command_that_only_looks_makes_no_store(desk: Desk, data: Path, command: str, code: int) -> None:
    temporary = data.parents[1] / "temporary"
    temporary.mkdir()
    result = desk.holdfast(*command.split(), env={"XDG_DATA_HOME": "", "TMPDIR": str(temporary)})
    assert result.code == code, result
    assert list(desk.user_home.iterdir()) == list(temporary.iterdir()) == []
    assert list(desk.project.iterdir()) == [desk.project / "train.py"]


def test_folder_in_the_home_directory_that_is_in_use_wins_over_one_in_the_xdg_data_folder(
    desk: Desk, data: Path
) -> None:
    assert desk.submit("train.py").code == 0
    assert desk.holdfast("config", "keepLimit", "1GB", env={"XDG_DATA_HOME": ""}).code == 0
    assert desk.holdfast("runs").json == []


def test_own_variable_wins_over_everything(desk: Desk, data: Path, tmp_path: Path) -> None:
    (desk.user_home / ".holdfast").mkdir()
    assert desk.holdfast("config", "keepLimit", "1GB", env={"HOLDFAST_HOME": str(tmp_path / "mine")}).code == 0
    assert (tmp_path / "mine" / STORE).is_file()
    assert list((desk.user_home / ".holdfast").iterdir()) == []


@pytest.mark.parametrize("value", ["", "relative/data"])
def test_variable_without_an_absolute_path_is_ignored(desk: Desk, data: Path, value: str) -> None:
    assert desk.holdfast("config", "keepLimit", "1GB", env={"XDG_DATA_HOME": value}).code == 0
    assert (desk.user_home / ".holdfast" / STORE).is_file()
    assert not (desk.project / "relative").exists()


def test_xdg_data_folder_is_enough_without_a_home_directory(desk: Desk, data: Path) -> None:
    assert desk.holdfast("config", "keepLimit", "1GB", env={"HOME": "/nonexistent"}).code == 0
    assert (data / STORE).is_file()


def test_location_is_shown_by_du_and_diagnostics(desk: Desk, data: Path) -> None:
    assert at_terminal(desk, 200, "du")[0] == str(data)
    assert desk.holdfast("diagnostics", "--yes").code == 0
    with zipfile.ZipFile(desk.project / "diagnostics.zip") as report:
        about = json.loads(report.read(next(name for name in report.namelist() if name.endswith("about.json"))))
    assert about["store_chosen_by"] == "XDG_DATA_HOME"


def test_first_snapshot_of_a_project_does_not_hold_the_store_inside_it(desk: Desk) -> None:
    """The home directory as project: the store is made by the same command that takes the snapshot."""
    desk.script("import os; print(sorted(os.listdir('.')))")
    result = desk.submit("train.py", env={"HOLDFAST_HOME": str(desk.project / "mine")})
    assert result.code == 0, result
    assert b"'train.py'" in result.out
    assert b"'mine'" not in result.out
