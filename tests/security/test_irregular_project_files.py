"""Links out of the project, FIFOs, devices and huge files where a command expects a configuration or a script."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

SUBMIT = ("submit", "-c", "local", "train.py")
SPECIAL = "this is not a regular file"


def _fifo(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["local.runconfig", "local.compute", "conda_dependencies.yml"])
def test_submit_and_check_refuse_a_fifo_as_a_configuration(desk: Desk, name: str) -> None:
    desk.script("print(1)")
    _fifo(desk.project / "aml_config" / name)
    checked = desk.holdfast("check")
    assert checked.code == 65, checked
    assert f"aml_config/{name}: error: {SPECIAL}" in checked.text
    if name != "conda_dependencies.yml":  # read only for targets with environments of ours
        result = desk.holdfast(*SUBMIT)
        assert result.code == 65, result
        assert f"ERROR: {SPECIAL}" in result.err
        assert f"at: {desk.project}/aml_config/{name}" in result.err
        assert "try: replace it with a regular file" in result.err


def test_a_named_target_that_is_a_fifo_is_not_called_missing(desk: Desk) -> None:
    desk.script("print(1)")
    _fifo(desk.project / "aml_config" / "x.compute")
    result = desk.holdfast("submit", "-c", "x", "train.py")
    assert result.code == 65, result
    assert f"ERROR: {SPECIAL}" in result.err


def test_a_device_as_a_target_is_refused(desk: Desk) -> None:
    desk.script("print(1)")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").symlink_to("/dev/zero")
    assert desk.holdfast("check").code == desk.holdfast(*SUBMIT).code == 65


def test_a_script_that_is_a_fifo_or_a_broken_link_is_named_as_such(desk: Desk) -> None:
    _fifo(desk.project / "train.py")
    result = desk.holdfast(*SUBMIT)
    assert result.code == 65, result
    assert "the script train.py is not a regular file" in result.err
    (desk.project / "train.py").unlink()
    (desk.project / "train.py").symlink_to("gone.py")
    result = desk.holdfast(*SUBMIT)
    assert result.code == 65, result
    assert "the script train.py is a link to a file that does not exist" in result.err


@pytest.mark.parametrize("python", ["/usr/bin/nopython", "nopython"])
def test_an_interpreter_that_does_not_exist_is_named(desk: Desk, python: str) -> None:
    desk.script("print(1)")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\npythonLocation: {python}\n")
    result = desk.holdfast(*SUBMIT)
    assert result.code == 127, result
    told = f"{python} cannot be started: No such file or directory (check pythonLocation)"
    assert told in result.err + result.text


def test_a_linked_aml_config_is_refused_with_reason_and_advice(desk: Desk, tmp_path: Path) -> None:
    desk.script("print(1)")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "local.runconfig").write_text("Target: local\nFramework: Python\n")
    (desk.project / "aml_config").symlink_to(shared)
    result = desk.holdfast(*SUBMIT)
    assert result.code == 65, result
    assert "ERROR: this file is, or is below, a symbolic link that leads out of the project\n" in result.err
    assert f"at: {desk.project}/aml_config/local.runconfig" in result.err
    assert "try: copy the link's target into the project; " in result.err
    assert "holdfast attach --user" in result.err


def test_a_huge_run_configuration_is_refused_with_reason_and_advice(desk: Desk) -> None:
    desk.script("print(1)")
    (desk.project / "aml_config").mkdir()
    with open(desk.project / "aml_config" / "local.runconfig", "wb") as file:
        file.truncate(300 << 20)
    result = desk.holdfast(*SUBMIT)
    assert result.code == 65, result
    assert "ERROR: this file is too large: at most 1 MiB are read" in result.err
    assert "try: " in result.err


def test_a_linked_requirements_file_is_refused_with_reason_and_advice(desk: Desk, tmp_path: Path) -> None:
    desk.script("print(1)")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text("type: local\nuserManagedEnvironment: false\n")
    (tmp_path / "elsewhere.txt").write_text("numpy\n")
    (desk.project / "requirements.txt").symlink_to(tmp_path / "elsewhere.txt")
    result = desk.holdfast("env", "show")
    assert result.code == 65, result
    assert "ERROR: this file is, or is below, a symbolic link" in result.err
    assert "at: requirements.txt" in result.err
    assert "try: copy the link's target into the project\n" in result.err


@pytest.mark.parametrize("name", [".amlignore", ".gitignore"])
def test_patterns_of_a_linked_ignore_file_are_not_applied_and_that_is_said(
    desk: Desk, tmp_path: Path, name: str
) -> None:
    (tmp_path / "patterns").write_text("data/\n")
    (desk.project / name).symlink_to(tmp_path / "patterns")
    desk.script("print(1)")
    result = desk.submit("train.py")
    assert result.code == 0
    assert f"{name}: a symbolic link: its patterns are not applied" in result.err
