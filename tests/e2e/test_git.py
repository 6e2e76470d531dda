"""Which commit a run was, and what was changed since, without slowing a submit in a folder that git does not know."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Desk

CHANGED = "with uncommitted changes"
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")


def git(desk: Desk, *words: str) -> str:
    done = subprocess.run(["git", *WHO, *words], cwd=desk.project, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_commit_branch_and_what_was_changed(desk: Desk) -> None:
    desk.script("print(1)\n")
    git(desk, "init", "-q", "-b", "lab")
    git(desk, "add", "train.py")
    git(desk, "commit", "-q", "-m", "first")
    commit = git(desk, "rev-parse", "HEAD")
    assert desk.submit("train.py").code == 0
    desk.script("print(2)\n")
    assert desk.submit("train.py").code == 0
    where = ("history", "list", "-o", "json", "--where")
    assert [row["run_number"] for row in desk.holdfast(*where, f"commit = '{commit}'").json] == [2, 1]
    assert [row["run_number"] for row in desk.holdfast(*where, "branch = 'lab' and dirty = true").json][:1] == [2]
    changed = (desk.home / "runs" / desk.record()["uid"] / "git.diff").read_text()
    assert "-print(1)" in changed
    assert "+print(2)" in changed
    assert not (desk.home / "runs" / desk.record("1")["uid"] / "git.diff").exists()
    assert desk.record("1")["properties"]["GitDirty"] is False, "the file that the first submit writes is no change"
    desk.script("", "new.py")
    assert desk.submit("train.py").code == 0
    assert desk.record()["properties"]["GitDirty"] is True


def test_info_shows_the_commit_of_git(desk: Desk) -> None:
    desk.script("print(1)\n")
    git(desk, "init", "-q", "-b", "lab")
    assert desk.submit("train.py").code == 0
    git(desk, "add", "-A")
    git(desk, "commit", "-q", "-m", "first")
    commit = git(desk, "rev-parse", "HEAD")
    assert desk.submit("train.py").code == 0
    desk.script("print(2)\n")
    assert desk.submit("train.py").code == 0
    git(desk, "checkout", "-q", "--detach")
    assert desk.submit("train.py").code == 0
    expected = [("1", f"no commit yet (lab, {CHANGED})"), ("2", f"{commit} (lab, no changes)")]
    expected += [("3", f"{commit} (lab, {CHANGED})"), ("4", f"{commit} (detached, {CHANGED})")]
    for number, words in expected:
        assert f"\ngit        {words}\n" in desk.holdfast("info", "-r", number, "-o", "table").out.decode()
    properties = desk.record("3")["properties"]
    assert (properties["GitCommit"], properties["GitBranch"], properties["GitDirty"]) == (commit, "lab", True)
    assert properties["CommitId"] == properties["Snapshot"][:40] != commit


def test_without_git_nothing_is_said(desk: Desk) -> None:
    desk.script("print(1)\n")
    assert desk.submit("train.py").code == 0
    assert not list(desk.home.glob("runs/*/git.diff"))
    assert "GitCommit" not in desk.record()["properties"]
