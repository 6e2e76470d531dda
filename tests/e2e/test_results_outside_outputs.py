"""What a script writes outside outputs/ comes back like its outputs, and what was not kept is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

TRAIN = """
import os
os.makedirs("checkpoints", exist_ok=True)
open("checkpoints/last.pt", "w").write("weights")
open("config.json", "w").write("changed")
open("outputs/model", "w").write("m")
print("loss: 0.5")
"""


@pytest.fixture
def elsewhere(desk: Desk, tmp_path: Path) -> None:
    """``local`` with its store elsewhere, so that files have to be fetched."""
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "local.compute").write_text(f"type: local\nroot: {tmp_path / 'elsewhere'}\n")
    desk.trust("local")


def _train(desk: Desk) -> None:
    (desk.project / "config.json").write_text("original")
    desk.script(TRAIN)
    submitted = desk.submit("train.py")
    assert submitted.code == 0, submitted
    assert "1 output (1 B)" in submitted.err
    assert "2 other files (14 B)" in submitted.err


@pytest.mark.parametrize("place", ["own", "other"])
def test_checkpoint_outside_outputs_is_shown_returned_and_restored(
    desk: Desk, place: str, request: pytest.FixtureRequest
) -> None:
    if place == "other":
        request.getfixturevalue("elsewhere")
    _train(desk)
    card = desk.holdfast("info", "-o", "table").text
    assert "files      2 files outside outputs/" in card
    assert "checkpoints/last.pt" in card
    outputs = desk.record()["outputs"]
    assert (outputs["files"], outputs["outside"]["files"], outputs["outside"]["bytes"]) == (1, 2, 14)
    assert desk.holdfast("info", "--artifact", "checkpoints/last.pt").out == b"weights"
    returned = desk.holdfast("return")
    assert returned.code == 1
    assert "not overwritten" in returned.err
    assert (desk.project / "checkpoints/last.pt").read_text() == "weights"
    assert (desk.project / "outputs/model").read_text() == "m"
    assert (desk.project / "config.json").read_text() == "original"
    assert desk.holdfast("return", "--overwrite").code == 0
    assert (desk.project / "config.json").read_text() == "changed"
    assert not (desk.project / "outputs/.project").exists()
    restored = desk.holdfast("restore", "--to", "again", "--results")
    assert restored.code == 1, restored
    assert f"not overwritten: {desk.project}/again/config.json (differs; holdfast history download -r " in restored.err
    assert "--overwrite" not in restored.err
    for name, text in (("checkpoints/last.pt", "weights"), ("config.json", "original"), ("outputs/model", "m")):
        assert (desk.project / "again" / name).read_text() == text
    assert desk.holdfast("store", "verify").code == 0


@pytest.mark.parametrize("place", ["own", "other"])
def test_copies_of_executable_results_are_executable(desk: Desk, place: str, request: pytest.FixtureRequest) -> None:
    if place == "other":
        request.getfixturevalue("elsewhere")
    desk.script(
        "import os\n"
        "for name, mode in (('prog', 0o755), ('outputs/prog', 0o4755), ('mine', 0o700), ('outputs/plain', 0o666)):\n"
        "    open(name, 'w').write('#!/bin/sh'); os.chmod(name, mode)\n"
    )
    assert desk.submit("train.py").code == 0
    assert desk.holdfast("return").code == 0
    assert desk.holdfast("restore", "--to", "again", "--results").code == 0
    assert desk.holdfast("history", "download", "-d", "copies").code == 0
    for folder in (".", "again", "copies"):
        modes = {name: (desk.project / folder / name).stat().st_mode & 0o7777 for name in ("prog", "mine")}
        modes.update((name, (desk.project / folder / "outputs" / name).stat().st_mode & 0o7777) for name in ("plain",))
        modes["outputs/prog"] = (desk.project / folder / "outputs/prog").stat().st_mode & 0o7777
        assert modes == {"prog": 0o755, "mine": 0o744, "plain": 0o644, "outputs/prog": 0o755}, folder


def test_return_names_and_leaves_out_a_stored_file_that_was_changed(desk: Desk) -> None:
    _train(desk)
    (desk.attempt() / "outputs/.project/checkpoints/last.pt").write_text("WEIGHTS")
    returned = desk.holdfast("return")
    assert returned.code == 74, returned
    assert "checkpoints/last.pt: the stored file differs from the one the run wrote" in returned.err
    assert not (desk.project / "checkpoints/last.pt").exists()
    assert (desk.project / "outputs/model").read_text() == "m"


def test_outputs_that_could_not_be_stored_give_no_advice_about_disk_space(desk: Desk) -> None:
    desk.script("import os\nopen('outputs/x', 'w').close(); os.makedirs('../../../outputs/in/the/way')\n")
    submitted = desk.submit("train.py")
    assert submitted.code == 74, submitted
    assert "holdfast return -r 1 tries again when this is fixed" in submitted.err
    returned = desk.holdfast("return")
    assert returned.code == 74, returned
    assert "disk space" not in submitted.err + returned.err


def test_restore_without_results_brings_the_code_alone_and_names_them(desk: Desk) -> None:
    _train(desk)
    restored = desk.holdfast("restore", "--to", "again")
    assert "the run left 3 results; --results copies them too" in restored.err
    assert (desk.project / "again/config.json").read_text() == "original"
    assert not (desk.project / "again/checkpoints").exists()


def test_kept_file_is_downloaded_promoted_and_compared_under_its_own_name(desk: Desk) -> None:
    _train(desk)
    assert desk.holdfast("history", "download", "-d", "copies").code == 0
    assert (desk.project / "copies/checkpoints/last.pt").read_text() == "weights"
    promoted = desk.holdfast("history", "promote", "-ap", "checkpoints/last.pt", "--name", "net")
    assert promoted.code == 0, promoted
    assert "version 1 of net: checkpoints/last.pt of " in promoted.err
    assert desk.holdfast("asset", "list").json[0]["path"] == "checkpoints/last.pt"
    got = desk.holdfast("asset", "download", "-l", "assets/net.link")
    assert got.code == 0, got
    assert (desk.project / "assets/net").read_text() == "weights"
    desk.script(TRAIN.replace("weights", "better"))
    assert desk.submit("train.py").code == 0
    compared = desk.holdfast("history", "compare", "-r", "1", "-r", "2").text
    assert "./checkpoints/last.pt" in compared


def test_python_api_has_kept_files_by_the_paths_that_the_script_wrote(desk: Desk, elsewhere: None) -> None:
    desk.script(TRAIN + "open('outputs/config.json', 'w').write('output')\n")
    assert desk.submit("train.py").code == 0
    result = desk.python("""
import json
import holdfast
outputs = holdfast.run("last").outputs
names = ["checkpoints/last.pt", "model", "outputs/model", "config.json", ".project/config.json"]
texts = {name: outputs[name].read_text() for name in names}
known = ["config.json" in outputs, "outputs/config.json" in outputs, "outputs/checkpoints/last.pt" in outputs]
print(json.dumps([sorted(outputs), sorted(outputs.fetch()), texts, known]))
""")
    assert result.code == 0, result
    names, fetched, texts, known = result.json
    assert names == fetched == ["checkpoints/last.pt", "config.json", "model"]
    assert list(texts.values()) == ["weights", "m", "m", "output", "changed"]
    assert known == [True, True, False]


def test_kept_files_travel_in_an_exported_archive(desk: Desk, tmp_path: Path) -> None:
    _train(desk)
    assert desk.holdfast("history", "export", "-r", "1", "--to", "runs.zip").code == 0
    desk.env["HOLDFAST_HOME"] = str(tmp_path / "other-home")
    imported = desk.holdfast("history", "import", "runs.zip")
    assert imported.code == 0, imported
    assert desk.holdfast("info", "--artifact", "checkpoints/last.pt").out == b"weights"


def test_files_over_the_limit_are_named_with_size_and_place_and_the_run_completes(desk: Desk) -> None:
    desk.script("open('big.bin', 'wb').write(bytes(3000)); open('small', 'w').write('s')")
    submitted = desk.submit("--keep-limit", "2kB", "train.py")
    assert submitted.code == 0, submitted
    assert "Not kept: big.bin (3.0 kB)" in submitted.err
    assert "keepLimit 2.0 kB" in submitted.err
    assert str(desk.attempt() / "workspace/above/work") in submitted.err
    assert (desk.attempt() / "workspace/above/work/big.bin").stat().st_size == 3000
    assert "not kept   big.bin (3.0 kB)" in desk.holdfast("info", "-o", "table").text
    assert desk.record()["outputs"]["outside"]["not_kept"]["paths"] == [{"path": "big.bin", "files": 1, "bytes": 3000}]


@pytest.mark.parametrize("where", ["setting", "run configuration"])
def test_limit_is_set_for_the_user_or_in_a_run_configuration(desk: Desk, where: str) -> None:
    desk.script("open('a', 'w').write('1'); open('b', 'w').write('22')")
    if where == "setting":
        assert desk.holdfast("config", "keepLimit", "2B").code == 0
    else:
        config = desk.project / "aml_config"
        config.mkdir()
        (config / "local.compute").write_text("type: local\n")
        (config / "local.runconfig").write_text("Target: local\nFramework: Python\nkeepLimit: 2B\nkeepFiles: 10\n")
    assert desk.submit("train.py").code == 0
    plan = json.loads((desk.attempt() / "plan.json").read_text())
    assert plan["keep"]["limit"] == 2
    assert desk.record()["outputs"]["outside"]["not_kept"]["files"] == 1


def test_gitignore_does_not_keep_results_out_but_keepignore_does(desk: Desk) -> None:
    (desk.project / ".gitignore").write_text("*.pt\ndata/\n")
    (desk.project / ".keepignore").write_text("# downloaded\ndata/\n")
    desk.script("import os; os.mkdir('data'); open('data/x', 'w').write('1'); open('last.pt', 'w').write('w')")
    assert desk.submit("train.py").code == 0
    outside = desk.record()["outputs"]["outside"]
    assert (outside["files"], outside["ignored"]["paths"]) == (1, [{"path": "data/", "files": 1, "bytes": 1}])


def test_large_files_that_built_in_rules_leave_out_are_named_with_their_size(desk: Desk) -> None:
    (desk.project / ".keepignore").write_text("data/\n")
    desk.script(
        "import os\n"
        "for name in ('env/pyvenv.cfg', 'env/model.pt', '__pycache__/a.pyc', '.cache/small', 'data/mine'):\n"
        "    os.makedirs(os.path.dirname(name), exist_ok=True)\n"
        "    open(name, 'wb').write(bytes(1000 if name == '.cache/small' else 600000))\n"
    )
    submitted = desk.submit("train.py")
    assert submitted.code == 0, submitted
    lines = submitted.err.splitlines()
    place = lines.index("Not kept by built-in rules: env/ (2 files, 1.2 MB)")
    assert lines[place + 1] == "  to keep it: !env/ in a file .keepignore"
    assert "data/" not in submitted.err
    (desk.project / ".keepignore").write_text("data/\n!env/\n")
    assert "2 other files (1.2 MB)" in desk.submit("train.py").err


def test_return_writes_nothing_that_git_or_holdfast_would_act_on(desk: Desk) -> None:
    desk.script("import os; os.mkdir('aml_config'); open('aml_config/x.compute', 'w').write('type: local')")
    assert desk.submit("train.py").code == 0
    returned = desk.holdfast("return")
    assert "reserved" in returned.err
    assert not (desk.project / "aml_config").exists()


def test_return_writes_nothing_below_git_folders_repositories_and_links(desk: Desk) -> None:
    """The project has a link to .git and half of a repository; the script adds the rest."""
    desk.script(
        "import os\n"
        "for folder in ('g', 'outputs/.git', 'deep/bare.git/refs', 'half', 'plain'): os.makedirs(folder)\n"
        "for name in ('g/commondir', 'outputs/.git/config', 'deep/bare.git/HEAD', 'deep/bare.git/config',\n"
        "             'deep/bare.git/refs/x', 'half/HEAD', 'plain/HEAD', 'plain/config'): open(name, 'w').write('x')\n"
    )
    assert desk.submit("train.py").code == 0
    (desk.project / ".git").mkdir()
    (desk.project / "g").symlink_to(".git")
    (desk.project / "half/objects").mkdir(parents=True)
    returned = desk.holdfast("return")
    assert returned.code == 74, returned
    assert f"g/commondir: {desk.project}/g is a symbolic link, to {desk.project}/.git" in returned.err
    assert f"not copied: {desk.project}/outputs/.git/config (reserved" in returned.err
    for folder in ("deep/bare.git", "half"):
        assert returned.err.count(f"not copied: {desk.project}/{folder}/ (git would use this folder") == 1
    assert not list((desk.project / ".git").iterdir())
    assert "history download" in returned.err.splitlines()[-1]
    assert not any((desk.project / name).exists() for name in ("outputs/.git", "deep", "half/HEAD"))
    assert (desk.project / "plain/config").read_text() == "x"


def test_result_written_to_the_folder_above_is_named_kept_and_returned(desk: Desk) -> None:
    desk.script("import os\nos.makedirs('../checkpoints')\nopen('../checkpoints/last.pt', 'w').write('w' * 7000)\n")
    submitted = desk.submit("train.py")
    assert submitted.code == 0
    assert "1 other file (7.0 kB)" in submitted.err
    assert "Kept above/ (1 file, 7.0 kB): what the script wrote to ../" in submitted.err
    assert "above/ (1 file, 7.0 kB): what the script wrote to ../" in desk.holdfast("info", "-o", "table").text
    assert desk.holdfast("return").code == 0
    assert (desk.project / "above/checkpoints/last.pt").read_text() == "w" * 7000


def test_file_beside_the_project_that_a_script_misses_is_explained(desk: Desk) -> None:
    data = desk.project.parent / "data"
    data.mkdir()
    (data / "d.csv").write_text("1")
    desk.script("open('../data/d.csv')\n")
    submitted = desk.submit("train.py")
    assert submitted.code == 1
    assert "../data/d.csv is outside the project, and a run has a copy of the project only" in submitted.err
    assert "submit from the folder above, where it is data/d.csv" in submitted.err


def test_path_that_is_meant_from_the_folder_of_the_script_is_explained(desk: Desk) -> None:
    desk.script("1", "a.csv")
    desk.script("open('../a.csv')\n", "sub/train.py")
    submitted = desk.submit("sub/train.py")
    assert submitted.code == 1
    assert "../a.csv was looked for in the folder of the project, where every run starts" in submitted.err
    assert "name it a.csv, or begin the path with os.path.dirname(__file__)" in submitted.err
    assert "project:" not in submitted.err
    below = desk.holdfast("submit", "-c", "local", "train.py", cwd=desk.project / "sub")
    assert f"project: {desk.project}, found above this folder; the run starts there\n" in below.err
    assert "../a.csv was looked for in the folder of the project" in below.err
