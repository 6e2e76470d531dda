"""Completion in real shells: at the prompt of bash and zsh, and with fish's ``complete -C``."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from conftest import Desk
from holdfast.cli.candidates import complete
from holdfast.cli.table.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.parse import Command

READY = b"READY>"
PROJECT = "ae47220a-3f01-f5c4-84a0-10922377cd2f"
BASH = (["bash", "--norc", "--noprofile", "-i"], "PS1='READ''Y>'; eval \"$(holdfast completion bash)\"")
COMPINIT = "PS1='READ''Y>'; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D"
ZSH = (["zsh", "-f", "-i"], f'{COMPINIT}; eval "$(holdfast completion zsh)"')
# What is typed before Tab, and the arguments that stand there after it.
TYPED = {
    "his": ["history"],
    "history comp": ["history", "compare"],
    "passport ver": ["passport", "verify"],
    "submit --dry": ["submit", "--dry-run"],
    "submit -c gpub": ["submit", "-c", "gpubox"],
    "submit --target=gpub": ["submit", "--target=gpubox"],
    "submit -c nig": ["submit", "-c", "nightly"],
    "computetarget show gp": ["computetarget", "show", "gpubox"],
    "info -r la": ["info", "-r", "last"],
    "logs 4": ["logs", "411"],
    "config defaultT": ["config", "defaultTarget"],
    "project create --template dig": ["project", "create", "--template", "digits"],
    "submit tra": ["submit", "train.py"],
    "submit -c local tra": ["submit", "-c", "local", "train.py"],
    "submit train.py --data the": ["submit", "train.py", "--data", "the data.csv"],
    "env show -p oth": ["env", "show", "-p", "other"],
    "runs -o ya": ["runs", "-o", "yaml"],
    "attach --password hunter2 ada@host --por": ["attach", "--password", "hunter2", "ada@host", "--port"],
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A project with run 411, a target, a run configuration, and files and a folder to complete."""
    desk = Desk(tmp_path_factory.mktemp("completion"))
    desk.script("print('done')")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "gpubox.compute").write_text("type: local\n")
    (desk.project / "aml_config" / "nightly.runconfig").write_text("Target: gpubox\nFramework: Python\n")
    (desk.project / "other").mkdir()
    (desk.project / "other.txt").write_text("")
    (desk.project / "the data.csv").write_text("")
    (desk.project / ".holdfast-project").write_text(json.dumps({"id": PROJECT, "name": "completed"}))
    (desk.home / "numbers").mkdir(parents=True)
    (desk.home / "numbers" / PROJECT).write_text("410\n")
    result = desk.submit("train.py", "--lr", "0.1")
    assert result.code == 0, result
    return desk


@pytest.mark.parametrize("shell", [BASH, ZSH], ids=["bash", "zsh"])
def test_tab_at_the_prompt_completes_commands_options_and_values(desk: Desk, shell: tuple[list[str], str]) -> None:
    with prompt(desk, *shell) as terminal:
        completed = {typed: [word.rstrip("/") for word in _completed(terminal, typed)] for typed in TYPED}
    assert completed == TYPED


def test_zsh_completes_with_the_script_in_a_folder_of_fpath(desk: Desk) -> None:
    folder = desk.user_home / "functions"
    folder.mkdir()
    (folder / "_holdfast").write_bytes(desk.holdfast("completion", "zsh").out)
    with prompt(desk, ZSH[0], f"fpath=({folder} $fpath); {COMPINIT}") as terminal:
        assert _completed(terminal, "his") == ["history"]
        assert _completed(terminal, "history comp") == ["history", "compare"]


def test_fish_completes_commands_options_and_values(desk: Desk) -> None:
    env = {**desk.env, "XDG_CONFIG_HOME": str(desk.user_home / "config")}
    asked = "; ".join(f"echo '@@{typed}'; complete -C 'holdfast {typed}'" for typed in TYPED)
    command = ["fish", "--no-config", "-c", f"holdfast completion fish | source; {asked}"]
    done = subprocess.run(command, cwd=desk.project, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    answers = dict(block.split("\n", 1) for block in done.stdout.split("@@")[1:])
    offered = {
        typed: [line.split("\t")[0].rstrip("/") for line in answer.splitlines()] for typed, answer in answers.items()
    }
    last = {typed: words[-1:] for typed, words in TYPED.items()}
    assert offered == last


def test_fish_shows_a_phrase_beside_each_candidate(desk: Desk) -> None:
    line = "holdfast completion fish | source; complete -C 'holdfast logs 4'; complete -C 'holdfast history pl'"
    command = ["fish", "--no-config", "-c", line]
    done = subprocess.run(command, cwd=desk.project, env=desk.env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "411\tCompleted, local: train.py --lr 0.1",
        "plot\tPlot metrics of runs in the terminal or into a file",
    ]


def test_completion_makes_no_store(desk: Desk) -> None:
    missing = desk.home.with_name("missing")
    env = {"HOLDFAST_HOME": str(missing)}
    with desk.start("completion", "fish", "--candidates", env=env, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(b"info\0-r\0\0", timeout=60)
    assert (process.returncode, out, err) == (0, b"words\n", b"")
    assert not missing.exists()


def test_a_password_typed_before_tab_is_in_no_list_of_processes(desk: Desk) -> None:
    """A ``holdfast`` that notes its arguments stands before the real one on the path."""
    folder = desk.user_home / "bin"
    folder.mkdir()
    (folder / "holdfast").write_text(f'#!/bin/sh\necho "$@" >> {desk.user_home}/arguments\nexec {desk.command} "$@"\n')
    (folder / "holdfast").chmod(0o755)
    desk.env["PATH"] = f"{folder}:{desk.env['PATH']}"
    with prompt(desk, *BASH) as terminal:
        assert _completed(terminal, "attach --password hunter2 --por")[-1] == "--port"
    assert (desk.user_home / "arguments").read_text().splitlines() == [
        "completion bash",
        "completion bash --candidates",
    ]


def test_unknown_shell_is_refused(desk: Desk) -> None:
    result = desk.holdfast("completion", "tcsh")
    assert result.code == 2
    assert "one of bash, zsh, fish" in result.err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words))
def test_every_command_and_visible_option_is_offered(command: Command) -> None:
    *group, name = command.short
    assert (name in {candidate.word for candidate in complete([*group, ""]).words}) is not command.hidden
    flags = {flag for option in command.options if not option.hidden for flag in option.flags}
    assert flags <= {candidate.word for candidate in complete([*command.short, "-"]).words}


@contextlib.contextmanager
def prompt(desk: Desk, argv: list[str], setup: str) -> Iterator[int]:
    """The terminal of an interactive shell that has printed its prompt."""
    ours, theirs = pty.openpty()
    env = {**desk.env, "TERM": "xterm", "ZDOTDIR": str(desk.user_home)}
    with subprocess.Popen(
        argv, cwd=desk.project, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, setup.encode() + b"\n")
        _read_until(ours, READY)
        yield ours
        process.kill()
    os.close(ours)


def _completed(terminal: int, typed: str) -> list[str]:
    """Type a line and Tab, then have the shell print the arguments of that line instead of running it."""
    os.write(terminal, f"holdfast {typed}\t\x01printf '<%s>' \x05\n".encode())
    printed = _read_until(terminal, READY).decode()
    found = re.search(r"^(?:\x1b[^<]*)?<holdfast>(.*)>", printed.rpartition(READY.decode())[0], re.MULTILINE)
    return found[1].removeprefix("<").split("><") if found else [printed]


def _read_until(terminal: int, mark: bytes) -> bytes:
    blocks = b""
    while mark not in blocks:
        blocks += os.read(terminal, 65536)
    return blocks
