"""A solve that must not build runs no program of a package, wherever the package comes from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from builder.asking import LINUX, pip_spec
from builder.wheels import write_wheel
from lab.server import serve
from lab.source import _git, write_program, write_sdist

if TYPE_CHECKING:
    from pathlib import Path

    from builder.asking import Builder

HERE: dict[str, Any] = {"facts": LINUX, "python": sys.executable}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    return place


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The same program as an archive and as a repository, and a package that requires it."""
    folder = tmp_path / "packages"
    write_program(folder, "hidden")
    repository = write_program(tmp_path / "repository", "hidden", archive=False)
    _git(repository, "init", "--quiet")
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--message", "first")
    write_wheel(folder, "outer", "1.0", {"outer.py": ""}, ("hidden",))
    return folder


@pytest.mark.parametrize("way", ["links", "file", "repository", "dependency", "no-binary"])
def test_no_program_of_a_package_runs(builder: Builder, packages: Path, home: Path, way: str) -> None:
    wanted = {
        "file": f"hidden @ {(packages / 'hidden-1.0.tar.gz').as_uri()}",
        "repository": f"hidden @ git+{(packages.parent / 'repository').as_uri()}",
        "dependency": "outer",
    }.get(way, "hidden")
    options: dict[str, Any] = {"no_index": True, "find_links": [packages.as_uri()]}
    if way == "no-binary":
        options["no_binary"] = ["hidden"]
    spec = {**pip_spec(wanted), "pip_options": options}
    answer = builder.solve(spec, no_build=True, **HERE)
    assert answer.last["kind"] == "build", answer.last
    assert answer.last["package"] == ("" if way == "no-binary" else "hidden")
    assert list(home.iterdir()) == []
    allowed = builder.solve(spec, **HERE)
    assert allowed.last["event"] == "done", allowed.last
    assert [path.name for path in home.iterdir()] == ["hidden-was-built"], "the program leaves its mark"


@pytest.mark.parametrize("named", ["outer", ":all:"])
def test_only_binary_goes_together_with_no_build(builder: Builder, tmp_path: Path, named: str) -> None:
    write_wheel(tmp_path / "packages", "outer", "1.0", {"outer.py": ""})
    options = {"no_index": True, "find_links": [(tmp_path / "packages").as_uri()], "only_binary": [named]}
    answer = builder.solve({**pip_spec("outer"), "pip_options": options}, no_build=True, **HERE)
    assert answer.last["event"] == "done", answer.last
    assert answer.last["lock"]["pip_options"]["only_binary"] == [named]


def test_metadata_that_can_be_read_needs_no_build(builder: Builder, home: Path, tmp_path: Path) -> None:
    archive = write_sdist(tmp_path / "packages", "plain", "1.0", "")
    answer = builder.solve(pip_spec(f"plain @ {archive.as_uri()}"), no_build=True, **HERE)
    assert answer.last["event"] == "done", answer.last
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("way", ["ssh", "rewritten to ssh", "credential helper"])
def test_no_login_is_tried(builder: Builder, home: Path, tmp_path: Path, way: str) -> None:
    """ssh and a credential helper of the user leave a mark when they are called."""
    mark, ssh = tmp_path / "called", tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho called >> {mark}\nexit 1\n")
    ssh.chmod(0o755)
    (tmp_path / "empty").mkdir()
    with serve(tmp_path / "empty") as server:
        server.password = "ada:s3cret"
        url = f"ssh://git@{server.url.partition('//')[2]}" if way == "ssh" else server.url
        helper = f'[credential]\n\thelper = "!{ssh}"\n'
        rewritten = f'[url "ssh://git@127.0.0.1/"]\n\tinsteadOf = {server.url}\n'
        (home / ".gitconfig").write_text(rewritten if way == "rewritten to ssh" else helper)
        asked = pip_spec(f"evil @ git+{url}/x.git", pip_options={"no_index": True})
        answer = builder.solve(asked, no_build=True, env={"GIT_SSH_COMMAND": str(ssh)}, **HERE)
        assert answer.last["kind"] == "login", answer.last
        assert not mark.exists()
        assert builder.solve(asked, env={"GIT_SSH_COMMAND": str(ssh)}, **HERE).last["kind"] == "unreachable"
        assert mark.exists(), "without no_build it is called"
