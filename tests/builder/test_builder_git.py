"""Packages from git repositories: a branch is asked for, a commit is what is locked and installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from builder.asking import Builder, pip_spec, said
from lab.server import serve
from lab.source import write_repository

if TYPE_CHECKING:
    from pathlib import Path

    from lab.source import Repository

HERE: dict[str, Any] = {"python": sys.executable}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return write_repository(tmp_path / "tinygit", "tinygit", "WHOLE = 'first'\n")


def test_the_commit_is_in_the_lock(builder: Builder, repository: Repository) -> None:
    first = said("git", "-C", repository.path, "rev-parse", "HEAD")
    asked = pip_spec(f"tinygit @ git+{repository.path.as_uri()}@main", pip_options={"no_index": True})
    lock = builder.lock(asked, **HERE)
    assert lock["pip"] == [f"tinygit @ git+{repository.path.as_uri()}@{first}"]
    second = repository.commit("WHOLE = 'second'\n")
    python = builder.environment(lock) / "bin/python"
    assert said(python, "-c", "import tinygit; print(tinygit.WHOLE)") == "first"
    assert builder.lock(asked, **HERE)["pip"] == [f"tinygit @ git+{repository.path.as_uri()}@{second}"]
    pinned = pip_spec(f"tinygit @ git+{repository.path.as_uri()}@{first}", pip_options={"no_index": True})
    assert builder.lock(pinned, **HERE)["pip"] == lock["pip"]


def test_a_repository_on_the_web_with_a_password(builder: Builder, repository: Repository, tmp_path: Path) -> None:
    commit = said("git", "-C", repository.path, "rev-parse", "HEAD")
    with serve(repository.path / ".git") as server:
        server.password = "ada:s3cret"
        url = f"git+{server.with_password()}/@main"
        answer = builder.solve(pip_spec(f"tinygit @ {url}", pip_options={"no_index": True}), **HERE)
        assert answer.last["lock"]["pip"] == [f"tinygit @ git+{server.url}/@{commit}"]
        assert "s3cret" not in answer.text + builder.log.read_text()
        refused = Builder(tmp_path, tmp_path / "other").install(answer.last["lock"], "without")
        assert refused.last["kind"] == "unreachable"
        whole = {**answer.last["lock"], "pip": [f"tinygit @ git+{server.with_password()}/@{commit}"]}
        prefix = builder.environment(whole)
    assert said(prefix / "bin/python", "-c", "import tinygit; print(tinygit.WHOLE)") == "first"
    for place in (prefix, builder.cache):
        assert [path for path in place.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("wanted", "env", "what", "hint"),
    [
        ("{uri}@elsewhere", {}, "failed to fetch branch or tag `elsewhere`", "check the address"),
        ("{uri}-gone@main", {}, "does not appear to be a git repository", "check the address"),
        ("{uri}@main", {"PATH": "/nowhere"}, "Git executable not found", "install git on the target"),
    ],
)
def test_what_cannot_be_fetched(
    builder: Builder, repository: Repository, wanted: str, env: dict[str, str], what: str, hint: str
) -> None:
    url = wanted.format(uri=repository.path.as_uri())
    answer = builder.solve(pip_spec(f"tinygit @ git+{url}", pip_options={"no_index": True}), env=env, **HERE)
    assert answer.last["kind"] == "unreachable"
    assert what in answer.last["what"]
    assert hint in answer.last["hint"]


def test_where_all_need_a_hash_a_repository_has_none(builder: Builder, repository: Repository) -> None:
    options = {"no_index": True, "require_hashes": True}
    answer = builder.solve(pip_spec(f"tinygit @ git+{repository.path.as_uri()}@main", pip_options=options), **HERE)
    assert answer.last["kind"] == "hash"
    assert "a git repository has none" in answer.last["what"]
