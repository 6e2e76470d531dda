"""No git of ours starts a program that a repository names: each way to name one, with a program that leaves a mark."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from holdfast.engine.submit.git_facts import Begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Desk

AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
HOOKS = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
    "query-watchman",
]
# Configuration whose value is a command, from git-config(1).
COMMANDS = [
    "core.fsmonitor",
    "core.sshCommand",
    "core.gitProxy",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.alternateRefsCommand",
    "core.hooksPath",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "merge.evil.driver",
    "mergetool.evil.cmd",
    "difftool.evil.cmd",
    "diff.tool",
    "merge.tool",
    "gpg.program",
    "gpg.openpgp.program",
    "gpg.ssh.program",
    "gpg.x509.program",
    "gpg.ssh.defaultKeyCommand",
    "credential.helper",
    "credential.https://example.org.helper",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "remote.origin.proxy",
    "uploadpack.packObjectsHook",
    "sequence.editor",
    "pager.diff",
    "pager.status",
    "pager.ls-files",
    "interactive.diffFilter",
    "trailer.evil.command",
    "trailer.evil.cmd",
    "sendemail.smtpServer",
    "sendemail.toCmd",
    "web.browser",
    "browser.evil.cmd",
    "man.evil.cmd",
    "help.browser",
    "guitool.evil.cmd",
    "receive.procReceiveRefs",
    "sendpack.sideband",
    "submodule.sub.update",
    "imap.tunnel",
    "blame.ignoreRevsFile",
    "notes.mergeStrategy",
]
SHELL_COMMANDS = ["alias.status", "alias.diff", "alias.ls-files", "alias.check-attr", "alias.config"]


class Repository(NamedTuple):
    """``tree`` is a work tree with one changed and one new file; ``trap`` makes a program that leaves a mark."""

    tree: Path
    marks: Path

    def trap(self, name: str) -> str:
        path = self.marks.parent / "traps" / name.replace("/", "_")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch '{self.marks}/{path.name}'\nexit 1\n")
        path.chmod(0o755)
        return str(path)

    def sprung(self) -> list[str]:
        return sorted(path.name for path in self.marks.iterdir())

    def configure(self, key: str, value: str) -> None:
        git(self.tree, "config", "--file", str(self.tree / ".git" / "config"), "--add", key, value)

    def change(self) -> None:
        (self.tree / "train.py").write_text("print('changed')\n")
        (self.tree / "new.py").touch()


def git(folder: Path, *words: str, check: bool = True) -> str:
    env = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull}
    nothing = subprocess.DEVNULL
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env=env,
        check=check,
        stdin=nothing,
        stdout=subprocess.PIPE,
        stderr=nothing,
        timeout=60,
    )
    return done.stdout.decode().strip()


def make(tree: Path, marks: Path) -> Repository:
    tree.mkdir(exist_ok=True)
    marks.mkdir(exist_ok=True)
    git(tree, "init", "-q", "-b", "trunk")
    (tree / "train.py").write_text("print(1)\n")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "first")
    return Repository(tree, marks)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make(tmp_path / "project", tmp_path / "marks")


def use_attributes(repository: Repository) -> None:
    (repository.tree / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")


def plant_command(key: str) -> Callable[[Repository], None]:
    def plant(repository: Repository) -> None:
        value = repository.trap(key)
        if key == "core.hooksPath":
            value = plant_hooks(repository, repository.tree / "hooks")
        repository.configure(key, f"!{value}" if key in (*SHELL_COMMANDS, "submodule.sub.update") else value)
        use_attributes(repository)

    return plant


def plant_hooks(repository: Repository, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(repository.trap(f"hook-{name}"))
    return str(folder)


def plant_default_hooks(repository: Repository) -> None:
    plant_hooks(repository, repository.tree / ".git" / "hooks")


def plant_include(repository: Repository) -> None:
    (repository.tree / "more.ini").write_text(f"[core]\n\tfsmonitor = {repository.trap('include')}\n")
    repository.configure("include.path", "../more.ini")


def plant_conditional_include(repository: Repository) -> None:
    (repository.tree / "more.ini").write_text(f"[core]\n\tfsmonitor = {repository.trap('includeIf')}\n")
    repository.configure("includeIf.gitdir:**.path", "../more.ini")


def plant_work_tree_config(repository: Repository) -> None:
    repository.configure("core.repositoryFormatVersion", "1")
    repository.configure("extensions.worktreeConfig", "true")
    text = f"[core]\n\tfsmonitor = {repository.trap('config.worktree')}\n"
    (repository.tree / ".git" / "config.worktree").write_text(text)


def plant_promisor(repository: Repository) -> None:
    """A partial clone that lacks the object of the committed file: git would fetch it by a program."""
    blob = git(repository.tree, "rev-parse", "HEAD:train.py")
    (repository.tree / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    repository.configure("core.repositoryFormatVersion", "1")
    repository.configure("extensions.partialClone", "origin")
    repository.configure("remote.origin.promisor", "true")
    repository.configure("remote.origin.url", "ssh://git@example.invalid/x")
    repository.configure("core.sshCommand", repository.trap("promisor"))


def plant_submodule(repository: Repository) -> None:
    """Submodules bring a configuration of their own."""
    inner = repository.tree / "sub"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "trunk")
    (inner / "inner.py").touch()
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "inner")
    git(repository.tree, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    git(repository.tree, "commit", "-q", "-m", "with a submodule")
    git(inner, "config", "core.fsmonitor", repository.trap("submodule"))
    git(inner, "config", "filter.evil.clean", repository.trap("submodule-filter"))
    (inner / ".gitattributes").write_text("* filter=evil\n")
    (inner / "inner.py").write_text("changed")


def plant_git_file(repository: Repository) -> None:
    """The folder that a ``.git`` file names may be anywhere, for example among the project's files."""
    elsewhere = repository.tree / "data"
    (repository.tree / ".git").rename(elsewhere)
    (repository.tree / ".git").write_text("gitdir: data\n")
    git(repository.tree, "config", "--file", str(elsewhere / "config"), "core.worktree", str(repository.tree))
    git(repository.tree, "config", "--file", str(elsewhere / "config"), "core.fsmonitor", repository.trap("git-file"))


PLANTS: dict[str, Callable[[Repository], None]] = {
    **{key: plant_command(key) for key in (*COMMANDS, *SHELL_COMMANDS)},
    "hooks": plant_default_hooks,
    "include": plant_include,
    "includeIf": plant_conditional_include,
    "config.worktree": plant_work_tree_config,
    "promisor": plant_promisor,
    "submodule": plant_submodule,
    "git-file": plant_git_file,
}
# Those that a plain "git status" or "git diff" springs: the proof that these traps work.
SPRUNG_BY_GIT = frozenset(
    [
        "core.fsmonitor",
        "core.hooksPath",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.process",
        "hooks",
        "include",
        "includeIf",
        "config.worktree",
        "promisor",
        "submodule",
        "git-file",
    ]
)


@pytest.mark.parametrize("name", PLANTS)
def test_facts_start_no_program_of_the_repository(repository: Repository, tmp_path: Path, name: str) -> None:
    PLANTS[name](repository)
    repository.change()
    found = Begun(str(repository.tree), str(tmp_path / "cache")).result()
    assert found is not None
    assert found["branch"] == "trunk"
    assert repository.sprung() == []
    if name in SPRUNG_BY_GIT:
        git(repository.tree, "status", check=False)
        git(repository.tree, "diff", check=False)
        git(repository.tree, "add", "new.py", check=False)  # status writes the index, and calls a hook, at times only
        assert repository.sprung() != [], "the trap works"


def test_global_settings_with_relative_programs_start_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative paths in the user's own configuration name programs of whatever repository is at hand."""
    (repository.tree / "tool").symlink_to(repository.trap("relative"))
    use_attributes(repository)
    text = '[core]\n\tfsmonitor = ./tool\n\thooksPath = hooks\n[filter "evil"]\n\tclean = ./tool\n'
    (tmp_path / ".gitconfig").write_text(text)
    plant_hooks(repository, repository.tree / "hooks")
    monkeypatch.setenv("HOME", str(tmp_path))
    repository.change()
    assert (Begun(str(repository.tree), str(tmp_path / "cache")).result() or {})["dirty"] is True
    assert repository.sprung() == []


def embed_bare(repository: Repository, folder: Path) -> Path:
    """What a clone can bring along as plain files: a folder that git itself takes for a repository."""
    shutil.copytree(repository.tree / ".git", folder)
    (folder / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"
        f"\tfsmonitor = {repository.trap('bare')}\n"
        f'[filter "evil"]\n\tclean = {repository.trap("bare-filter")}\n'
    )
    (folder / "train.py").write_text("print('below')\n")
    return folder


def everything_planted(desk: Desk) -> Repository:
    repository = make(desk.project, desk.project.parent / "marks")
    for name, plant in PLANTS.items():
        if name not in ("submodule", "promisor", "git-file", "config.worktree"):
            plant(repository)
    repository.change()
    return repository


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "-c", "local", "train.py"),
        ("submit", "-c", "local", "--dry-run", "train.py"),
        ("submit", "-c", "local", "--preflight", "train.py"),
        ("submit", "-c", "local", "absent.py"),
        ("submit", "-c", "nowhere", "train.py"),
        ("check",),
        ("history", "list"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("where", ["project", "bare"])
def test_commands_start_no_program_of_the_repository(desk: Desk, words: tuple[str, ...], where: str) -> None:
    repository = everything_planted(desk)
    folder = desk.project if where == "project" else embed_bare(repository, desk.project / "vendor" / "bare")
    result = desk.holdfast(*words, cwd=folder)
    assert result.code != 70, result
    assert repository.sprung() == []
    git(folder, "status", check=False)
    assert repository.sprung() != [], "the traps work"
