"""What git knows of a project, compared with what git itself says."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.engine.submit import git_facts
from holdfast.engine.submit.git_facts import Begun

if TYPE_CHECKING:
    from pathlib import Path

AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q", "-b", "trunk")
    (place / "train.py").write_text("print(1)\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    return place


def begin(place: Path) -> Begun:
    return Begun(str(place), str(place.parent / "cache"))


def facts(place: Path) -> dict[str, Any]:
    # A machine with much to do may take longer than a submit waits.
    for _ in range(20):
        found: Any = begin(place).result()
        if found is None or "dirty" in found or "filtered" in found:
            break
    assert found is not None
    return dict(found)


def test_a_clean_tree(project: Path) -> None:
    assert facts(project) == {"commit": git(project, "rev-parse", "HEAD"), "branch": "trunk", "dirty": False}


def test_a_changed_tree_and_its_difference(project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("print(2)\n")
    begun = begin(project)
    found: Any = begun.result()
    while "diff" not in found:
        begun = begin(project)
        found = begun.result()
    begun.keep(str(tmp_path))
    kept = (tmp_path / "git.diff").read_bytes()
    assert b"-print(1)\n+print(2)\n" in kept
    assert found["dirty"] is True
    assert found["diff"] == {"bytes": len(kept), "sha256": hashlib.sha256(kept).hexdigest(), "whole": True}
    git(project, "checkout", "-q", "train.py")
    git(project, "apply", str(tmp_path / "git.diff"))
    assert (project / "train.py").read_text() == "print(2)\n"


def test_a_new_file_is_a_difference_too(project: Path) -> None:
    (project / "new.py").touch()
    found = facts(project)
    assert found["dirty"] is True
    assert "diff" not in found


def test_a_folder_within_and_a_detached_head(project: Path) -> None:
    (project / "deep" / "er").mkdir(parents=True)
    commit = git(project, "rev-parse", "HEAD")
    git(project, "checkout", "-q", "--detach")
    assert facts(project / "deep" / "er") == {"commit": commit, "branch": None, "dirty": False}


def test_packed_refs_and_linked_work_trees(project: Path, tmp_path: Path) -> None:
    git(project, "branch", "side/one")
    git(project, "pack-refs", "--all")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"), "side/one")
    commit = git(project, "rev-parse", "HEAD")
    assert facts(project) == {"commit": commit, "branch": "trunk", "dirty": False}
    assert facts(tmp_path / "linked") == {"commit": commit, "branch": "side/one", "dirty": False}


def test_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    found = begin(tmp_path).result()
    assert found is not None
    assert (found["commit"], found["branch"]) == (None, "trunk")


def test_no_git_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert begin(plain).result() is None
    monkeypatch.setenv("PATH", str(plain))
    commit = (project / ".git" / "refs" / "heads" / "trunk").read_text().strip()
    assert begin(project).result() == {"commit": commit, "branch": "trunk"}


def test_a_git_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    began = time.monotonic()
    begun = begin(project)
    found = begun.result()
    assert time.monotonic() - began < 60
    assert found is not None
    assert "dirty" not in found
    comparison = begun._comparison
    assert comparison is not None
    assert not _is_alive(comparison._new._pid)


def test_a_large_difference_is_cut(project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("".join(f"{number:09}\n" for number in range(200_000)))
    found: Any = {}
    while "diff" not in found:
        begun = begin(project)
        found = begun.result()
    assert found["diff"]["whole"] is False
    assert found["diff"]["bytes"] == git_facts.LONGEST_DIFF
    begun.keep(str(tmp_path))
    assert (tmp_path / "git.diff").stat().st_size == git_facts.LONGEST_DIFF


def test_settings_that_describe_the_work_tree_are_honoured(project: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (project / "train.py").chmod(0o755)
    assert facts(project)["dirty"] is True
    git(project, "config", "core.fileMode", "false")
    assert facts(project)["dirty"] is False
    (project / "notes.tmp").touch()
    assert facts(project)["dirty"] is True
    (project / ".git" / "info" / "exclude").write_text("*.tmp\n")
    assert facts(project)["dirty"] is False
    (project / "notes.bak").touch()
    assert facts(project)["dirty"] is True
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignored ; mine\n")
    (tmp_path / "ignored").write_text("*.bak\n")
    assert facts(project)["dirty"] is False


def test_a_filtered_file_is_not_compared_and_counted(project: Path, tmp_path: Path) -> None:
    git(project, "config", "filter.upper.clean", "tr a-z A-Z")
    (project / ".gitattributes").write_text("*.big filter=upper\n")
    (project / "data.big").write_text("abc\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "filtered")
    assert git(project, "status", "--porcelain") == ""
    os.utime(project / "data.big", (1, 1))
    found = facts(project)
    assert found["filtered"] == 1
    assert "dirty" not in found
    assert "diff" not in found
    (project / "train.py").write_text("print(2)\n")
    begun = begin(project)
    found = dict(begun.result() or {})
    assert (found["filtered"], found["dirty"]) == (1, True)
    begun.keep(str(tmp_path))
    kept = (tmp_path / "git.diff").read_text()
    assert "train.py" in kept
    assert "data.big" not in kept


def test_another_commit_in_a_submodule_is_a_difference(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "trunk")
    git(other, "commit", "-q", "--allow-empty", "-m", "first")
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    git(project, "commit", "-q", "-m", "with a submodule")
    assert facts(project)["dirty"] is False
    assert facts(project / "sub") == {"commit": git(other, "rev-parse", "HEAD"), "branch": "trunk", "dirty": False}
    git(project / "sub", "commit", "-q", "--allow-empty", "-m", "second")
    assert facts(project)["dirty"] is True


def test_a_git_file_that_claims_another_repository_compares_nothing(project: Path, tmp_path: Path) -> None:
    claiming = tmp_path / "claiming"
    claiming.mkdir()
    (claiming / ".git").write_text(f"gitdir: {project}/.git\n")
    assert begin(claiming).result() == {"commit": git(project, "rev-parse", "HEAD"), "branch": "trunk"}


def test_a_sha256_repository(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    git(place, "init", "-q", "-b", "trunk", "--object-format=sha256")
    (place / "train.py").write_text("print(1)\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "first")
    assert facts(place) == {"commit": git(place, "rev-parse", "HEAD"), "branch": "trunk", "dirty": False}


@pytest.mark.parametrize("name", ["HEAD", "config", "index", "packed-refs", "info/exclude", "refs/heads/trunk"])
@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "link out", "garbage"])
def test_files_of_the_repository_that_are_not_files(project: Path, tmp_path: Path, name: str, kind: str) -> None:
    path = project / ".git" / name
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "garbage":
        path.write_bytes(b"\xff\0ref: ../../x\n" * 100)
    else:
        (tmp_path / "secret").write_text("ref: refs/heads/../../../secret\n")
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "secret")
    began = time.monotonic()
    begin(project).result()
    assert time.monotonic() - began < 20  # it waits for a second; the machine may be busy


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a folder away")
def test_a_repository_of_another_user_is_not_looked_at(project: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (project / "deep").mkdir()
    os.chown(project / ".git", 12345, 12345)
    assert begin(project / "deep").result() is None
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text(f"[safe]\n\tdirectory = {project}\n")
    assert facts(project / "deep")["branch"] == "trunk"


def test_a_damaged_folder_of_ours_is_made_again(project: Path) -> None:
    assert facts(project)["dirty"] is False
    folder = project.parent / "cache" / "git-40"
    for name in ("HEAD", "config"):
        (folder / name).write_bytes(b"[core")
        assert facts(project)["dirty"] is False
    (folder / "hooks").mkdir()
    assert facts(project)["dirty"] is False
    assert sorted(path.name for path in folder.iterdir()) == ["HEAD", "config", "refs"]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
