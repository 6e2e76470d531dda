"""The user's home is no project: its files are neither stored nor sent, and it does not take in folders below it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Desk

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nhome-folder-test-key\n"
IDENTITY = json.dumps({"id": "0b9d3a1e-58c1-4a53-9d8b-0d2b1f7a4c11", "name": "ada"})


def put_key_and_script(desk: Desk) -> None:
    (desk.user_home / ".ssh").mkdir()
    (desk.user_home / ".ssh" / "id").write_bytes(KEY)
    (desk.user_home / "look.py").write_text("print('ran')\n")


def holds_key(folder: Path) -> bool:
    return any(KEY in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("way", ["home", "above", "by --project", "by a link", "with an identity"])
def test_submit_from_the_home_directory_is_refused_before_anything_is_stored(
    desk: Desk, tmp_path: Path, way: str
) -> None:
    put_key_and_script(desk)
    (tmp_path / "look.py").write_text("print('ran')\n")
    (tmp_path / "link").symlink_to(desk.user_home)
    cwd = {"above": tmp_path, "by --project": desk.project, "by a link": tmp_path / "link"}.get(way, desk.user_home)
    if way == "with an identity":
        (desk.user_home / ".holdfast-project").write_text(IDENTITY)
    before = sorted(os.listdir(cwd))
    result = desk.submit(*(["--project", str(desk.user_home)] if way == "by --project" else []), "look.py", cwd=cwd)
    assert result.code != 0
    assert b"ran" not in result.out
    assert "holds your home directory" in result.err
    assert "mkdir" in result.err
    assert "holdfast trust " in result.err
    assert sorted(os.listdir(cwd)) == before
    assert not holds_key(desk.home)


def test_home_directory_is_a_project_once_it_is_confirmed_and_its_keys_stay_out(desk: Desk) -> None:
    put_key_and_script(desk)
    assert "confirmed" in desk.holdfast("trust", str(desk.user_home)).err
    result = desk.submit("look.py", cwd=desk.user_home)
    assert result.code == 0, result.err
    assert ".ssh: excluded: it looks like a folder of SSH keys" in result.err
    assert not holds_key(desk.home)


def test_identity_in_the_home_directory_does_not_take_in_the_folders_below(desk: Desk) -> None:
    put_key_and_script(desk)
    (desk.user_home / ".holdfast-project").write_text(IDENTITY)
    below = desk.user_home / "newthing"
    below.mkdir()
    (below / "train.py").write_text("import os; print(sorted(os.listdir('.')))\n")
    first = desk.submit("train.py", cwd=below)
    assert first.code == 0, first.err
    assert b"look.py" not in first.out
    assert (below / ".holdfast-project").is_file()
    assert f"{desk.user_home}/.holdfast-project ignored: your home directory" in first.err
    second = desk.submit("train.py", cwd=below)
    assert "ignored" not in second.err


def test_restore_over_the_home_directory_is_refused(desk: Desk) -> None:
    put_key_and_script(desk)
    desk.holdfast("trust", str(desk.user_home))
    assert desk.submit("look.py", cwd=desk.user_home).code == 0
    (desk.user_home / "thesis.tex").write_text("years of work")
    desk.holdfast("trust", "--forget", str(desk.user_home))
    result = desk.holdfast("restore", "1", cwd=desk.user_home)
    assert result.code != 0
    assert (desk.user_home / "thesis.tex").read_text() == "years of work"
