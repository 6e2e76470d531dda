"""Outputs with odd names, and outputs of which some cannot be had: the others come, and the rest is named."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disks.volume import Volume
from odd_outputs import NAMES, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk


@pytest.fixture
def elsewhere(desk: Desk, tmp_path: Path) -> Path:
    """``local`` with its store elsewhere; returns that store."""
    root = tmp_path / "elsewhere"
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "local.compute").write_text(f"type: local\nroot: {root}\n")
    desk.trust("local")
    return root


@pytest.fixture
def store(desk: Desk) -> Iterator[Volume]:
    volume = Volume(desk, desk.home, "8m")
    yield volume
    volume.leave()


@pytest.mark.parametrize("place", ["own", "other"])
def test_outputs_of_any_name_come_and_are_returned(desk: Desk, place: str, request: pytest.FixtureRequest) -> None:
    if place == "other":
        request.getfixturevalue("elsewhere")
    desk.script(WRITES)
    submitted = desk.submit("train.py")
    assert submitted.code == 0, submitted.err
    returned = desk.holdfast("experiment", "return")
    assert returned.code == 0, returned.err
    downloaded = desk.holdfast("history", "download", "-d", "copies")
    assert downloaded.code == 0, downloaded.err
    for folder in (desk.attempt(), desk.project, desk.project / "copies"):
        for number, name in enumerate(NAMES):
            assert Path(os.fsdecode(os.fsencode(folder) + b"/outputs/" + name)).read_bytes() == b"%d" % number
    assert not (desk.attempt() / "arriving").exists()
    record = desk.record()["outputs"]
    assert (record["files"], record["complete"], record["problems"]) == (len(NAMES), True, [])
    assert desk.holdfast("store", "verify").code == 0


def test_link_to_an_output_that_is_copied_after_it_is_copied(desk: Desk) -> None:
    desk.script("import os; open('outputs/model', 'w').write('weights'); os.symlink('model', 'outputs/latest')")
    assert desk.submit("train.py").code == 0
    copied = desk.holdfast("history", "download", "-d", "copies")
    assert copied.code == 0, copied.err
    assert os.readlink(desk.project / "copies/outputs/latest") == "model"


def test_one_output_missing_on_the_target_costs_that_one_alone(desk: Desk, elsewhere: Path) -> None:
    desk.script(
        "for name in 'abcdefg': open('outputs/' + name, 'w').write(name * 3)\n"
        "open('outputs/large', 'wb').write(bytes(17 * 1024 * 1024))\n"
    )
    assert desk.submit("train.py").code == 0
    there, here = (place / "runs" / desk.record()["uid"] / "a1" / "outputs" for place in (elsewhere, desk.home))
    shutil.rmtree(here, ignore_errors=True)
    (there / "a").unlink()
    (there / "b").write_text("BBB")
    (there / "c").write_text("longer than before")
    (there / "d").write_text("")
    (there / "e").unlink()
    (there / "e").mkdir()
    (there / "f").unlink()
    os.mkfifo(there / "f")
    result = desk.holdfast("experiment", "return")
    assert result.code == 74, result.err
    assert "6 outputs could not be copied; 2 were" in result.err
    assert sorted(os.listdir(desk.project / "outputs")) == ["g", "large"]
    record = desk.record()
    assert record["outputs"]["complete"] is False
    assert [line.split()[0] for line in record["outputs"]["problems"]] == [f"outputs/{name}" for name in "abcdef"]
    assert "No such file" in record["reason"]
    assert desk.holdfast("history", "list", "-o", "json").json[0]["outputs"] == record["outputs"]
    for name in "abcd":
        (there / name).write_text(name * 3)
    (there / "e").rmdir()
    (there / "f").unlink()
    (there / "e").write_text("eee")
    (there / "f").write_text("fff")
    assert desk.holdfast("experiment", "return").code == 0
    assert desk.record()["outputs"]["complete"] is True
    assert desk.holdfast("history", "list", "-o", "json").json[0]["outputs"]["complete"] is True


def test_transfer_goes_on_where_the_last_one_stopped(desk: Desk, elsewhere: Path) -> None:
    """The first half is changed on the target after it was fetched: the whole is right only if it is not read again."""
    desk.script("open('outputs/large', 'wb').write(b'x' * (17 << 20))")
    assert desk.submit("train.py").code == 0
    attempt = desk.attempt()
    digest = json.loads((attempt / "outputs.jsonl").read_text())["sha256"]
    (attempt / "arriving").mkdir(exist_ok=True)
    (attempt / "arriving" / digest).write_bytes(b"x" * (10 << 20))
    there = elsewhere / "runs" / attempt.parent.name / "a1" / "outputs" / "large"
    with open(there, "r+b") as target:
        target.write(b"y" * (5 << 20))
    assert desk.holdfast("experiment", "return").code == 0
    assert (desk.project / "outputs" / "large").read_bytes() == b"x" * (17 << 20)


def test_damaged_beginning_is_fetched_again_from_the_first_byte(desk: Desk, elsewhere: Path) -> None:
    desk.script("open('outputs/large', 'wb').write(b'x' * (17 << 20))")
    assert desk.submit("train.py").code == 0
    attempt = desk.attempt()
    digest = json.loads((attempt / "outputs.jsonl").read_text())["sha256"]
    (attempt / "arriving").mkdir(exist_ok=True)
    (attempt / "arriving" / digest).write_bytes(b"y" * (20 << 20))
    assert desk.holdfast("experiment", "return").code == 0
    assert (desk.project / "outputs" / "large").read_bytes() == b"x" * (17 << 20)


def test_full_client_disk_is_shown_in_the_state_and_return_works_later(
    desk: Desk, elsewhere: Path, store: Volume
) -> None:
    assert store.holdfast("trust", "local").code == 0
    desk.script("open('outputs/small', 'w').write('s'); open('outputs/model', 'wb').write(bytes(9 << 20))")
    result = store.holdfast("submit", "-c", "local", "train.py")
    assert result.code == 74, result
    assert "Completed, outputs incomplete" in result.err
    assert "\N{CHECK MARK}" not in result.err
    assert "outputs/model" in result.err
    assert "No space left on device" in result.err
    record = store.holdfast("history", "info", "-o", "json").json
    assert (record["status"], record["exit_code"], record["outputs"]["complete"]) == ("Completed", 0, False)
    assert "incomplete" in store.holdfast("history", "info", "-o", "table").text
    again = store.holdfast("experiment", "return")
    assert again.code == 74
    assert "1 output could not be copied; 1 was" in again.err
    assert store.run("mount", "-o", "remount,size=64m", str(desk.home)).code == 0
    assert store.holdfast("experiment", "return").code == 0
    assert (desk.project / "outputs" / "model").stat().st_size == 9 << 20
    assert store.holdfast("history", "info", "-o", "json").json["outputs"]["complete"] is True


def test_outputs_that_the_runner_cannot_keep_are_no_plain_success(desk: Desk) -> None:
    desk.script(
        "import os\n"
        "open('outputs/good', 'w').write('1')\n"
        "with open('outputs/sparse', 'w') as target: os.ftruncate(target.fileno(), 4 << 40)\n"
    )
    result = desk.submit("-o", "json", "train.py")
    assert result.code == 74, result
    assert "Completed, outputs incomplete" in result.err
    assert "a sparse file of" in result.err
    record = result.json
    assert (record["status"], record["exit_code"]) == ("Completed", 0)
    assert record["outputs"]["complete"] is False
    assert record["outputs"]["files"] == 1
    assert b"Completed, outputs incomplete" in desk.holdfast("runs", "-o", "table").out
    assert b"Completed, outputs incomplete" in desk.holdfast("runs", "--limit", "1", "-o", "table").out
    assert desk.holdfast("runs", "-o", "json").json[0]["status"] == "Completed"
    assert b"Completed, outputs incomplete" in desk.holdfast("info", "-o", "table").out
    assert desk.holdfast("status").out.startswith(b"state : Completed\noutputs : incomplete\n")
    returned = desk.holdfast("experiment", "return")
    assert returned.code == 74
    assert (desk.project / "outputs" / "good").read_text() == "1"


def test_what_is_no_plain_file_is_named_when_the_run_ends(desk: Desk) -> None:
    desk.script("import os; os.mkfifo('outputs/pipe'); open('outputs/good', 'w').write('1')")
    result = desk.submit("train.py")
    assert result.code == 0, result
    assert "outputs/pipe was not stored: not a plain file" in result.err


def test_own_exit_code_of_a_failed_script_stays(desk: Desk) -> None:
    desk.script("import os; os.rmdir('outputs'); raise SystemExit(3)")
    assert desk.submit("train.py").code == 3


def test_two_names_of_one_file_are_not_taken_for_two_outputs(desk: Desk, elsewhere: Path) -> None:
    """As on a file system that does not distinguish upper and lower case: both names lead to one file."""
    desk.script("open('outputs/Model', 'w').write('1'); open('outputs/model', 'w').write('2')")
    assert desk.submit("train.py").code == 0
    here = desk.attempt() / "outputs"
    (here / "model").unlink()
    os.link(here / "Model", here / "model")
    (desk.attempt() / "outputs.jsonl").chmod(0o600)
    there = elsewhere / "runs" / desk.record()["uid"] / "a1" / "outputs.jsonl"
    third = {"path": "third", "size": 1, "sha256": "0" * 64}  # so that the target is asked at all
    for manifest in (there, desk.attempt() / "outputs.jsonl"):
        manifest.write_text(manifest.read_text() + json.dumps(third) + "\n")
    result = desk.holdfast("experiment", "return")
    assert result.code == 74
    assert "treats this name and 'Model' as the same file" in result.err
    assert (desk.project / "outputs" / "Model").read_text() == "1"
    assert not (desk.project / "outputs" / "model").exists()


def test_link_of_the_project_does_not_lead_outputs_elsewhere(desk: Desk, tmp_path: Path) -> None:
    desk.script("open('outputs/authorized_keys', 'w').write('evil')")
    assert desk.submit("train.py").code == 0
    private = tmp_path / "private"
    private.mkdir()
    (desk.project / "outputs").symlink_to(private)
    result = desk.holdfast("experiment", "return")
    assert result.code == 74
    assert "leads out of the project" in result.err
    assert list(private.iterdir()) == []


def test_longest_names_in_a_project_are_restored(desk: Desk) -> None:
    desk.script("print(1)")
    longest = desk.project / ("n" * 255)
    longest.write_text("first")
    assert desk.submit("train.py").code == 0
    longest.write_text("second")
    restored = desk.holdfast("restore", "-r", "1")
    assert restored.code == 0, restored
    assert longest.read_text() == "first"


_FILLS_ITS_DISK = (
    "import os\n"
    "for number in range(3): open(f'outputs/ok{number}', 'w').write('kept')\n"
    "target = open('outputs/model', 'wb', buffering=0)\n"
    "try:\n"
    "    while True: target.write(bytes(4096))\n"
    "except OSError: pass\n"
)
_FILLS_ITS_RESERVE = _FILLS_ITS_DISK.replace(
    "target =", "for number in range(900): open(f'outputs/{number:0200}', 'w').close()\ntarget ="
)


@pytest.fixture
def small(desk: Desk, elsewhere: Path) -> Iterator[Volume]:
    volume = Volume(desk, elsewhere, "8m")
    yield volume
    volume.leave()


@pytest.mark.parametrize("place", ["own", "other"])
def test_outputs_that_filled_the_disk_of_the_run_are_listed_and_come(
    desk: Desk, place: str, request: pytest.FixtureRequest
) -> None:
    volume: Volume = request.getfixturevalue("store" if place == "own" else "small")
    desk.script(_FILLS_ITS_DISK)
    result = volume.holdfast("submit", "-c", "local", "train.py")
    assert result.code == 0, result
    returned = volume.holdfast("experiment", "return")
    assert returned.code == 0, returned
    assert sorted(os.listdir(desk.project / "outputs")) == ["model", "ok0", "ok1", "ok2"]


@pytest.mark.parametrize("place", ["own", "other"])
def test_manifest_that_did_not_fit_is_written_later(desk: Desk, place: str, request: pytest.FixtureRequest) -> None:
    volume: Volume = request.getfixturevalue("store" if place == "own" else "small")
    desk.script(_FILLS_ITS_RESERVE)
    result = volume.holdfast("submit", "-c", "local", "train.py")
    assert result.code == 74, result
    assert "Completed, outputs incomplete" in result.err
    assert "/a1/outputs" in result.err
    assert "holdfast return -r 1" in result.err
    for words in (("experiment", "return"), ("history", "download", "-d", "copies")):
        refused = volume.holdfast(*words)
        assert refused.code == 74, refused
    root = desk.home if place == "own" else desk.home.parent / "elsewhere"
    assert volume.run("mount", "-o", "remount,size=64m", str(root)).code == 0
    returned = volume.holdfast("experiment", "return")
    assert returned.code == 0, returned
    assert len(os.listdir(desk.project / "outputs")) == 904
    record = volume.holdfast("history", "info", "-o", "json").json
    assert (record["outputs"]["complete"], record["outputs"]["files"]) == (True, 904)
    assert volume.holdfast("store", "verify").code == 0
