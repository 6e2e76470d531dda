"""A store that cannot be written to, as a whole or in part: readers answer as ever, writers say what to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from conftest import HOLDFAST, Desk, Result, as_user, eventually
from disks.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Iterator

READERS = [
    ("history", "list", "-o", "json"),
    ("history", "info", "-r", "1", "-o", "json"),
    ("history", "last", "-o", "json"),
    ("history", "info", "-r", "1", "-a", "outputs/model"),
    ("logs", "-r", "1"),
    ("status", "-r", "1"),
    ("diff", "-r", "1", "-r", "2"),
    ("store", "verify"),
    ("du", "--query", "[].what"),  # not the sizes: the last run may still be cleaning up
]


@pytest.fixture
def store(desk: Desk) -> Iterator[Volume]:
    """A store with two runs, on a disk of its own."""
    volume = Volume(desk, desk.home, "20m")
    desk.script("open('outputs/model', 'w').write('kept'); print('said')")
    for _ in range(2):
        assert volume.holdfast("submit", "-c", "local", "train.py").code == 0
    yield volume
    volume.leave()


def test_on_a_read_only_store_every_reader_answers_as_before(store: Volume) -> None:
    before = [store.holdfast(*words) for words in READERS]
    store.make_read_only()
    assert [store.holdfast(*words) for words in READERS] == before
    assert all(result.code == 0 for result in before)


def test_a_run_that_was_open_when_the_disk_became_read_only_is_shown_as_last_known(desk: Desk, store: Volume) -> None:
    desk.script("import time; print('up', flush=True); time.sleep(600)")
    assert store.holdfast("submit", "--no-wait", "-c", "local", "train.py").code == 0
    eventually(lambda: store.holdfast("history", "last", "--query", "status", "-o", "tsv").text == "Running\n")
    store.make_read_only()
    assert store.holdfast("history", "last", "--query", "status", "-o", "tsv").text == "Running\n"
    assert store.holdfast("logs").out == b"up\n"


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "-c", "local", "train.py"),
        ("store", "reindex"),
        ("history", "delete", "-r", "1", "--yes"),
        ("config", "keepRuns", "30"),
    ],
)
def test_what_must_write_names_the_place_and_the_variable_to_set(
    desk: Desk, store: Volume, words: tuple[str, ...]
) -> None:
    (desk.project / "more.txt").write_text("something new")
    store.make_read_only()
    result = store.holdfast(*words)
    assert result.code == 74, result
    assert "ead-only" in result.err
    assert str(desk.home) in result.err
    assert "HOLDFAST_HOME" in result.err


def test_a_store_that_cannot_be_made_names_the_variable_to_set(desk: Desk, store: Volume) -> None:
    store.make_read_only()
    desk.script("print(1)")
    result = store.holdfast("submit", "-c", "local", "train.py", env={"HOLDFAST_HOME": f"{desk.home}/deeper"})
    assert result.code == 74
    assert "HOLDFAST_HOME" in result.err


@pytest.mark.parametrize("folder", ["locks", "cache", "numbers", ""])
def test_parts_that_are_not_ours_hinder_no_reader(public_desk: Desk, folder: str) -> None:
    desk = public_desk
    desk.script("open('outputs/model', 'w').write('kept'); print('said')")
    for _ in range(2):
        assert desk.submit("train.py").code == 0
    before = [desk.holdfast(*words) for words in READERS]
    nobody = _without_rights(desk)
    for path in (desk.home / folder, *(desk.home / folder).iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert _run(desk, desk.env, *nobody, "touch", str(desk.home / folder / "x")).code != 0
        for words, expected in zip(READERS, before, strict=True):
            assert _run(desk, desk.env, *nobody, str(HOLDFAST), *words) == expected, words
    finally:
        (desk.home / folder).chmod(0o755)  # so that it can be removed


def test_user_without_a_home_is_told_the_variable_to_set(public_desk: Desk) -> None:
    desk = public_desk
    nobody = _without_rights(desk)
    if not nobody:
        pytest.skip("NOT TESTED: only root can become a user that the system does not know")
    env = {name: value for name, value in desk.env.items() if name not in ("HOME", "HOLDFAST_HOME")}
    result = _run(desk, env, *nobody, str(HOLDFAST), "history", "list")
    assert result.code == 74
    assert "HOLDFAST_HOME" in result.err


@pytest.fixture
def public_desk() -> Iterator[Desk]:
    """A desk in a folder that all users can read; pytest's own folders are private."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Desk(Path(place))


def _without_rights(desk: Desk) -> list[str]:
    """Arguments that run a command as a user who owns nothing and may read everything of the desk."""
    if os.geteuid() != 0:
        return []
    words = as_user(54321)
    subprocess.run(["chmod", "-R", "a+rX", *filter(Path.exists, (desk.home, desk.user_home))], check=True)
    # A project of another user would be refused for that.
    subprocess.run(["chown", "-R", "54321", desk.project], check=True)
    return words


def _run(desk: Desk, env: dict[str, str], *words: str) -> Result:
    done = subprocess.run(words, cwd=desk.project, env=env, capture_output=True, timeout=60, check=False)
    return Result(done.returncode, done.stdout, done.stderr.decode())
