"""``restore`` of a run whose code someone else chose: git and Holdfast act on nothing that it brings."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from conftest import Desk
from holdfast.runner.store import objects

if TYPE_CHECKING:
    from pathlib import Path

    Tree = dict[str, "bytes | Tree"]

CONFIG = b'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s; false"\n'
OTHER = b'{"id": "a0e9f640-f13e-1c5c-3c5c-feb69d168c99", "name": "other"}'


def stored(desk: Desk, tree: Tree) -> str:
    """Its digest, with every object in the store."""

    def put(data: bytes) -> str:
        with objects.Batch(os.fsencode(desk.home / "objects")) as batch:
            digest = batch.add_bytes(data)
            batch.commit()
        return str(digest)

    entries: list[dict[str, object]] = []
    for name, content in sorted(tree.items()):
        if isinstance(content, dict):
            entries.append({"digest": stored(desk, content), "name": name, "type": "dir"})
        else:
            file = {"digest": put(content), "executable": False, "name": name, "size": len(content), "type": "file"}
            entries.append(file)
    return put(json.dumps({"entries": entries, "v": 1}, sort_keys=True, separators=(",", ":")).encode())


def restored(desk: Desk, tree: Tree, *words: str) -> str:
    """What a restore of run 1 says after the run was given this code."""
    path = desk.attempt("1").parent / "run.json"
    request = json.loads(path.read_bytes())
    request.pop("crc", None)
    path.chmod(0o600)
    path.write_text(json.dumps({**request, "tree": stored(desk, tree)}) + "\n")
    done = desk.holdfast("restore", "-r", "1", *words)
    assert done.code == 0, done.err
    return done.err


@pytest.fixture
def mine(desk: Desk) -> Desk:
    desk.script("print(1)")
    subprocess.run(["git", "init", "-q", "."], cwd=desk.project, check=True)
    desk.submit("train.py")
    return desk


@pytest.mark.parametrize("name", [".git", ".g\u200cIT"])
def test_restore_writes_nothing_into_git_folders(mine: Desk, tmp_path: Path, name: str) -> None:
    before = (mine.project / ".git" / "config").read_bytes()
    evil: Tree = {"config": CONFIG % os.fsencode(tmp_path / "ran"), "hooks": {"pre-commit": b"#!/bin/sh\n"}}
    code: Tree = {name: evil, "sub": {name: evil, "part.py": b""}, "train.py": b"print(2)\n"}
    told = restored(mine, code)
    assert (mine.project / ".git" / "config").read_bytes() == before
    assert "not restored: " in told
    assert restored(mine, code, "--to", str(tmp_path / "new"))
    for root in (mine.project, tmp_path / "new"):
        assert (root / "train.py").read_text() == "print(2)\n"
        assert (root / "sub" / "part.py").exists()
        assert not os.path.lexists(root / "sub" / name)
        subprocess.run(["git", "status"], cwd=root, check=False, capture_output=True)
    assert not (tmp_path / "new" / name).exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("folders", [{"objects": {}, "refs": {}}, {"objects": {"x": b""}, "refs": {"x": b""}}])
def test_restore_makes_no_bare_repository(mine: Desk, tmp_path: Path, folders: Tree) -> None:
    bare: Tree = {"HEAD": b"ref: refs/heads/main\n", "config": CONFIG % os.fsencode(tmp_path / "ran"), **folders}
    (mine.project / "sub" / "objects").mkdir(parents=True)
    (mine.project / "sub" / "refs").mkdir()
    assert "sub/ (git would use this folder as a repository)" in restored(mine, {"sub": bare, "train.py": b""})
    restored(mine, {"sub": bare, "train.py": b""}, "--to", str(tmp_path / "new"))
    for root in (mine.project, tmp_path / "new"):
        assert (root / "train.py").read_bytes() == b""
        assert not (root / "sub" / "HEAD").exists()


@pytest.mark.parametrize("code", [{}, {".holdfast-project": OTHER}, {".azureml": {"project.json": OTHER}}])
def test_restore_keeps_the_identity_of_the_project(mine: Desk, code: Tree) -> None:
    before = (mine.project / ".holdfast-project").read_bytes()
    restored(mine, {**code, "train.py": b"print(2)\n"})
    assert (mine.project / "train.py").read_text() == "print(2)\n"
    assert (mine.project / ".holdfast-project").read_bytes() == before
    assert not (mine.project / ".azureml" / "project.json").exists()
    assert [row["run_number"] for row in mine.holdfast("runs", "-o", "json").json] == [1]


def test_restore_writes_through_no_link_that_snapshots_leave_out(mine: Desk, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (mine.project / "linked").symlink_to(tmp_path / "private")
    (mine.project / ".amlignore").write_text("/linked\n.amlignore\n")
    told = restored(mine, {"linked": {"authorized_keys": b"evil"}, "train.py": b"print(2)\n"})
    assert "linked/authorized_keys; --to DIR has the run's own" in told
    assert os.listdir(tmp_path / "private") == []
    assert (mine.project / "train.py").read_text() == "print(2)\n"
