"""Checkpoints of a lost attempt: the next one takes them over, whatever the script did to their folder."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from runner_post import Post, Run, post_fixture, stop_both  # noqa: F401
from test_outputs import without_root_powers

from conftest import alive, eventually

if TYPE_CHECKING:
    from pathlib import Path

LOOK = (
    "import os; folder = os.environ['HOLDFAST_CHECKPOINTS']; print(os.path.islink(folder), sorted(os.listdir(folder)))"
)

FOLDER = "the checkpoints folder"


def _lose(post: Post, text: str) -> Run:
    """As a machine that goes down."""
    run = post.start(
        post.script(
            f"import os, time\nmine = os.environ['HOLDFAST_CHECKPOINTS']\n{text}\n"
            "print('up', flush=True)\ntime.sleep(600)"
        )
    )
    run.wait_for_log(b"up")
    stop_both(run)
    pids = [run.guardian, run.supervisor, *run.processes()]
    for pid in pids:
        with suppress(ProcessLookupError):  # the interpreter that lists packages ends by itself
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(alive, pids)))
    post.bury(run)
    return run


def _again(post: Post, run: Run) -> Run:
    return post.run(LOOK, uid=run.uid, attempt="a2")


def test_read_only_checkpoints_are_handed_over(post: Post, tmp_path: Path) -> None:
    post.python = str(without_root_powers(post.python, tmp_path / "python"))
    lost = _lose(
        post,
        "os.makedirs(mine + '/s'); open(mine + '/s/f', 'w').write('1')\n"
        "for name in (mine + '/s', mine, mine + '/..', '.'): os.chmod(name, 0o555)",
    )
    second = _again(post, lost)
    assert second.event("closed")["outcome"] == "completed", second.event("closed")
    assert second.log == b"False ['s']\n"
    assert second.event("resumed")["attempt"] == "a1"


def test_link_to_a_folder_elsewhere_is_handed_over_as_the_link(post: Post, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    lost = _lose(post, f"os.rmdir(mine); os.symlink({str(scratch)!r}, mine); open(mine + '/a', 'w')")
    second = _again(post, lost)
    assert second.log == b"True ['a']\n"
    assert second.event("resumed")["attempt"] == "a1"
    assert "checkpoints_left" not in second.types
    assert second.outputs["checkpoints"]["link"] == str(scratch)
    assert os.listdir(scratch) == ["a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("os.mkdir('own'); open('own/a', 'w'); os.rmdir(mine); os.symlink('above/work/own', mine)", FOLDER),
        ("os.mkdir('own'); os.rmdir(mine); os.symlink(os.path.abspath('own'), mine)", FOLDER),
        ("os.rmdir(mine); os.symlink('/nowhere/at/all', mine)", FOLDER),
        (
            "above = os.path.dirname(mine); os.rename(above, above + '.moved'); os.symlink('/var', above)",
            "a folder above the checkpoints",
        ),
    ],
    ids=["relative", "own", "gone", "above"],
)
def test_link_that_is_not_handed_over_is_named(post: Post, text: str, words: str) -> None:
    lost = _lose(post, text)
    second = post.run(
        "import os; assert os.listdir(os.environ['HOLDFAST_CHECKPOINTS']) == []", uid=lost.uid, attempt="a2"
    )
    assert second.event("closed")["outcome"] == "completed"
    why = second.event("checkpoints_left")["why"]
    assert why.startswith(f"{words} of attempt 1 is a symbolic link to ")
    assert why.endswith(" and was not handed over")
    assert "resumed" not in second.types


def test_checkpoints_that_an_earlier_version_left_in_outputs_are_handed_over(post: Post) -> None:
    lost = _lose(post, "os.rmdir(mine); os.mkdir('outputs/checkpoints'); open('outputs/checkpoints/a', 'w')")
    assert _again(post, lost).log == b"False ['a']\n"


KILLED = "import os, signal\nmine = os.environ['HOLDFAST_CHECKPOINTS']\n%s\nos.kill(os.getpid(), signal.SIGKILL)\n"


def test_checkpoints_of_a_script_that_was_killed_are_copied_and_stay_among_its_outputs(post: Post) -> None:
    text = (
        "os.mkdir('outputs/checkpoints'); open('outputs/checkpoints/own', 'w')\n"
        "os.mkdir(mine + '/s'); open(mine + '/s/a', 'w').write('7'); os.mkfifo(mine + '/pipe')"
    )
    first = post.run(KILLED % text)
    closed = first.event("closed")
    assert (closed["exit_code"], closed["checkpoints"]) == (137, "checkpoints-1")
    second = _again(post, first)
    assert second.log == b"False ['s']\n"
    assert second.event("resumed")["attempt"] == "a1"
    assert second.outputs["checkpoints/s/a"]["size"] == 1
    assert first.outputs["checkpoints-1/s/a"]["size"] == 1
    assert (first.folder / "outputs/checkpoints-1/s/a").read_text() == "7"


def test_link_in_the_place_of_checkpoints_of_a_killed_script_is_handed_over(post: Post, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    first = post.run(KILLED % f"os.rmdir(mine); os.symlink({str(scratch)!r}, mine); open(mine + '/a', 'w')")
    assert _again(post, first).log == b"True ['a']\n"
