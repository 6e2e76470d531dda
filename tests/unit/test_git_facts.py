"""What git knows of a project, compared with what git itself says."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.engine import git_facts
from holdfast.engine.git_facts import Begun

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


def facts(place: Path) -> dict[str, Any]:
    # A machine with much to do may take longer than a submit waits.
    for _ in range(20):
        found: Any = Begun(str(place)).result()
        if found is None or "dirty" in found:
            break
    assert found is not None
    return dict(found)


def test_a_clean_tree(project: Path) -> None:
    assert facts(project) == {"commit": git(project, "rev-parse", "HEAD"), "branch": "trunk", "dirty": False}


def test_a_changed_tree_and_its_difference(project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("print(2)\n")
    begun = Begun(str(project))
    found: Any = begun.result()
    while "diff" not in found:
        begun = Begun(str(project))
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
    found = Begun(str(tmp_path)).result()
    assert found is not None
    assert (found["commit"], found["branch"]) == (None, "trunk")


def test_no_git_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert Begun(str(plain)).result() is None
    monkeypatch.setenv("PATH", str(plain))
    commit = (project / ".git" / "refs" / "heads" / "trunk").read_text().strip()
    assert Begun(str(project)).result() == {"commit": commit, "branch": "trunk"}


def test_a_git_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    began = time.monotonic()
    begun = Begun(str(project))
    found = begun.result()
    assert time.monotonic() - began < 60
    assert found is not None
    assert "dirty" not in found
    assert all(child._pid == 0 or not _is_alive(child._pid) for child in begun._children)


def test_a_large_difference_is_cut(project: Path, tmp_path: Path) -> None:
    (project / "train.py").write_text("".join(f"{number:09}\n" for number in range(200_000)))
    found: Any = {}
    while "diff" not in found:
        begun = Begun(str(project))
        found = begun.result()
    assert found["diff"]["whole"] is False
    assert found["diff"]["bytes"] == git_facts.LONGEST_DIFF
    begun.keep(str(tmp_path))
    assert (tmp_path / "git.diff").stat().st_size == git_facts.LONGEST_DIFF


def test_nothing_that_the_repository_names_is_run(project: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{tmp_path}/sprung'\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "diff.x.textconv", "core.pager"):
        git(project, "config", key, str(trap))
    (project / ".gitattributes").write_text("*.py diff=x\n")
    (project / "train.py").write_text("print(2)\n")
    assert facts(project)["dirty"] is True
    assert not (tmp_path / "sprung").exists()
    git(project, "-c", "core.fsmonitor=false", "diff", "HEAD")
    assert (tmp_path / "sprung").exists(), "and the trap works"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
