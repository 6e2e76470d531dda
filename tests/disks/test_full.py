"""A full disk under the store, under a target's store and under the project, and recovery with space."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from disks.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Desk, Result

PAGE = 4096
SCRIPT = """
import holdfast
for step in range(2000): holdfast.log('loss', step)
print('y' * 30000)
open('outputs/model', 'wb').write(b'z' * 20000)
"""


@pytest.fixture
def store(desk: Desk) -> Iterator[Volume]:
    volume = Volume(desk, desk.home, "8m")
    yield volume
    volume.leave()


@pytest.fixture
def project(desk: Desk, tmp_path: Path) -> Iterator[Volume]:
    """The project's folder on a small disk, with one run in the store."""
    volume = Volume(desk, desk.project, "2m")
    (volume.path / "train.py").write_text("open('outputs/model', 'wb').write(b'z' * 300_000)")
    (volume.path / "data.bin").write_bytes(b"first" * 100_000)
    assert _submit(volume).code == 0
    yield volume
    volume.leave()


def test_submit_on_a_full_disk_fails_cleanly_and_works_again_with_space(desk: Desk, store: Volume) -> None:
    """From no space at all to nearly enough: snapshot, numbers, run folder, start, copy, log, metrics, outputs."""
    desk.script(SCRIPT)
    assert _submit(store).code == 0
    chance = random.Random(39)
    said = set()
    for leave in (*range(0, 80 * PAGE, 8 * PAGE), *(chance.randrange(80 * PAGE) for _ in range(10))):
        (desk.project / "data.bin").write_bytes(chance.randbytes(50_000))
        store.fill(leave)
        result = _submit(store)
        shown = [line.split()[-1] for line in result.text.splitlines() if line.startswith("RunId:")]
        said.add(next((line for line in result.err.splitlines() if line.startswith("ERROR")), "-"))
        listed = store.holdfast("history", "list", "-o", "json")
        assert listed.code == 0, listed
        assert set(shown) <= {record["run_id"] for record in listed.json}
        assert result.code == 74 or shown, (leave, result)
        assert result.code != 70, (leave, result)
        if result.code == 74:
            assert "full" in result.err or "No space left" in result.err, (leave, result)
            assert str(desk.home) in result.err
        assert not list(store.path.glob("runs/*.tmp")), leave
        assert not [path for path in store.path.glob("objects/tmp/*") if path.name != "lock"], leave
    print("\n".join(sorted(said)))
    assert "-" in said, "with nearly enough space a run succeeds"
    assert any("the disk that holds the store is full" in line for line in said), said
    store.free()
    assert _submit(store).code == 0
    states = {record["status"] for record in store.holdfast("history", "list", "-o", "json").json}
    assert states <= {"Completed", "Failed"}, "no run is left open"
    verdict = store.holdfast("store", "verify")
    assert verdict.code == 0, verdict


def test_the_script_goes_on_and_what_was_lost_is_said(desk: Desk, store: Volume, tmp_path: Path) -> None:
    done = tmp_path / "done"
    desk.script(
        "import holdfast\n"
        "filler = open('filler', 'wb', buffering=0)\n"
        "try:\n"
        "    while filler.write(bytes(4096)) == 4096: pass\n"
        "except OSError: pass\n"
        "for step in range(5000): holdfast.log('loss', step)\n"
        "print('y' * 100_000)\n"
        f"open({str(done)!r}, 'w').write('reached')\n"
    )
    result = _submit(store)
    assert done.read_text() == "reached"
    assert result.code == 0, result
    assert "writing the log failed" in result.err
    record = store.holdfast("history", "info", "-o", "json").json
    assert record["status"] == "Completed"
    assert "No space left" in record["reason"]


def test_a_full_disk_leaves_every_answer_as_it_was(desk: Desk, store: Volume) -> None:
    """Without disk space for an index, commands answer without one."""
    desk.script("import sys; print(sys.argv[1])")
    for number in range(3):
        assert _submit(store, str(number)).code == 0
    before = store.holdfast("history", "list", "-o", "json")
    for name in ("index.sqlite.sum", "index.sqlite"):
        store.free()
        assert store.holdfast("history", "list", "-o", "json") == before
        (store.path / name).unlink()
        store.fill(0)
        assert store.holdfast("history", "list", "-o", "json") == before
        assert store.holdfast("logs", "-r", "2").out == b"1\n"
    refused = store.holdfast("store", "reindex")
    assert refused.code == 74
    assert "index.sqlite" in refused.err
    store.free()
    assert store.holdfast("store", "reindex").code == 0
    assert store.holdfast("history", "list", "-o", "json") == before


def test_full_client_disk_loses_nothing_of_the_run(desk: Desk, store: Volume, tmp_path: Path) -> None:
    """Only the client's disk is full: the run continues, and its files are fetched when there is space."""
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\nroot: {tmp_path / 'elsewhere'}\n")
    assert store.holdfast("trust", "local").code == 0
    desk.script(
        "import os, time\nprint('up', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
        "print('y' * 300_000)\n"
        "open('outputs/model', 'wb').write(b'z' * 500_000)\n"
    )
    assert store.holdfast("submit", "--no-wait", "-c", "local", "train.py").code == 0
    assert store.holdfast("history", "list").code == 0
    store.fill(2 * PAGE)
    (tmp_path / "go").touch()
    watched = store.holdfast("logs", "-f")
    assert watched.code == 74
    assert "the run continues" in watched.err
    assert str(desk.home) in watched.err
    assert store.holdfast("history", "list").code == 0
    store.free()
    assert store.holdfast("logs", "-f").code == 0
    assert store.holdfast("logs").out == b"up\n" + b"y" * 300_000 + b"\n"
    store.fill(20 * PAGE)
    refused = store.holdfast("experiment", "return")
    assert refused.code == 74
    assert "outputs/model" in refused.err
    assert not (desk.project / "outputs").exists()
    store.free()
    assert store.holdfast("experiment", "return").code == 0
    assert (desk.project / "outputs" / "model").read_bytes() == b"z" * 500_000
    assert store.holdfast("store", "verify").code == 0


@pytest.mark.parametrize("words", [("experiment", "return"), ("history", "download", "-d", "there")])
def test_copy_on_a_full_disk_leaves_no_partial_file(project: Volume, words: tuple[str, ...]) -> None:
    project.fill(10 * PAGE)
    before = _names(project)
    refused = project.holdfast(*words)
    assert refused.code == 74, refused
    assert "No space left on device" in refused.err
    assert "outputs/model" in refused.err
    assert [name for name in _names(project) - before if "model" in name] == []
    project.free()
    assert project.holdfast(*words, *(("--overwrite",) if words[0] == "history" else ())).code == 0


def test_restore_without_disk_space_changes_nothing(project: Volume) -> None:
    (project.path / "data.bin").write_bytes(b"second")
    (project.path / "new.txt").write_text("new")
    project.fill(50 * PAGE)
    before = {name: (project.path / name).read_bytes() for name in _names(project)}
    refused = project.holdfast("restore", "-r", "1")
    assert refused.code == 74, refused
    assert "not enough disk space" in refused.err
    assert "bytes are needed" in refused.err
    assert {name: (project.path / name).read_bytes() for name in _names(project)} == before
    into = project.holdfast("restore", "-r", "1", "--to", "there")
    assert into.code == 74
    assert "there" in into.err
    assert _names(project) == set(before)
    project.free()
    assert project.holdfast("restore", "-r", "1").code == 0
    assert (project.path / "data.bin").read_bytes() == b"first" * 100_000


def _submit(volume: Volume, *words: str) -> Result:
    return volume.holdfast("submit", "-c", "local", "train.py", *words)


def _names(volume: Volume) -> set[str]:
    return {
        os.path.relpath(os.path.join(folder, name), volume.path)
        for folder, _, names in os.walk(volume.path)
        for name in names
    }


def test_new_project_is_there_whole_or_not_at_all(desk: Desk, project: Volume) -> None:
    project.fill(PAGE)
    result = project.holdfast("project", "create", "--name", "digits", "--template", "iris-sklearn")
    assert result.code == 74, result
    assert "No space left" in result.err
    assert [path.name for path in project.path.iterdir() if path.name.startswith("digits")] == []


def test_import_that_finds_no_space_leaves_nothing(desk: Desk, store: Volume, tmp_path: Path) -> None:
    desk.script("print('said')")
    assert _submit(store).code == 0
    assert store.holdfast("history", "export", "-r", "last", "--to", str(tmp_path / "runs.zip")).code == 0
    store.fill(0)
    assert store.holdfast("history", "import", str(tmp_path / "runs.zip")).code == 74
    assert list(store.path.glob("import-*")) == []


def test_report_that_finds_no_space_leaves_nothing(project: Volume) -> None:
    project.fill(0)
    assert project.holdfast("diagnostics", "-r", "last", "--yes", "--to", "report.zip").code == 74
    assert list(project.path.glob("*report*")) == []


def test_script_that_fills_the_disk_is_told_so_with_what_frees_space(desk: Desk, store: Volume) -> None:
    desk.script("with open('big', 'wb', 0) as target:\n    while True: target.write(bytes(100_000))\n")
    result = _submit(store)
    assert result.code != 0
    assert "the disk of local was full, or a quota was reached" in result.err, result
    assert "holdfast du shows disk usage; holdfast delete --now" in result.err


def test_full_disk_of_a_target_is_named_with_the_command_that_cleans_it(desk: Desk, tmp_path: Path) -> None:
    volume = Volume(desk, tmp_path / "small", "8m")
    try:
        (desk.project / "aml_config").mkdir()
        (desk.project / "aml_config" / "small.compute").write_text(f"type: local\nroot: {tmp_path}/small/store\n")
        desk.trust("small")
        desk.script(SCRIPT)
        assert volume.holdfast("submit", "-c", "small", "train.py").code == 0
        (desk.project / "data.bin").write_bytes(random.Random(1).randbytes(50_000))
        volume.fill(0)
        result = volume.holdfast("submit", "-c", "small", "train.py")
        assert result.code == 74, result
        assert "holdfast clean -c small removes what ended runs left there" in result.err, result
    finally:
        volume.leave()
