"""Outputs under names of their own: promoted, linked, fetched again, and never the wrong bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

SCRIPT = """
import os, sys
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/model.pkl", "w").write("weights " + sys.argv[1])
open("outputs/deep/more.bin", "w").write("more")
"""


@pytest.fixture
def project(desk: Desk) -> Desk:
    desk.script(SCRIPT)
    desk.submit("train.py", "1")
    desk.submit("train.py", "2")
    return desk


def test_promoted_and_fetched(project: Desk) -> None:
    link = project.project / "assets" / "mnist.link"
    for number in (1, 2):
        words = ("-r", str(number), "-ap", "outputs/model.pkl", "-n", "mnist")
        done = project.holdfast("history", "promote", *words)
        assert (done.code, done.text) == (0, f"{link}\n"), done.err
    text = link.read_text()
    said = json.loads(text)
    assert text.count("\n") == 1
    assert (said["name"], said["version"], said["path"]) == ("mnist", "2", "model.pkl")
    done = project.holdfast("asset", "download", "-l", "assets/mnist.link", "-d", "out")
    assert done.code == 0, done.err
    assert (project.project / "out" / "mnist").read_text() == "weights 2"
    listed = project.holdfast("asset", "list", "-o", "json").json
    assert [(row["name"], row["version"]) for row in listed] == [("mnist", "2"), ("mnist", "1")]


def test_a_link_as_the_original_wrote_it(project: Desk) -> None:
    project.holdfast("history", "promote", "-r", "1", "-ap", "model.pkl", "-n", "mnist")
    link = project.project / "assets" / "mnist.link"
    link.write_text('{"assetSource":"azureml","name":"mnist","version":"1"}')
    assert project.holdfast("asset", "download", "-l", str(link)).code == 0
    assert (project.project / "assets" / "mnist").read_text() == "weights 1"
    link.write_text('{"assetSource":"azureml","name":"mnist","version":"7"}')
    refused = project.holdfast("asset", "download", "-l", str(link), "-d", "out")
    assert (refused.code, "version 7" in refused.err) == (2, True)


def test_a_script_finds_what_was_fetched(project: Desk) -> None:
    project.holdfast("history", "promote", "-r", "1", "-ap", "outputs/deep/more.bin", "-n", "more")
    project.holdfast("asset", "download", "-l", "assets/more.link")
    project.script("from azureml.assets import get_local_path\nprint(open(get_local_path('assets/more.link')).read())")
    assert "more\n" in project.submit("train.py").text


def test_damaged_content_is_not_handed_out(project: Desk) -> None:
    project.holdfast("history", "promote", "-r", "1", "-ap", "outputs/model.pkl", "-n", "mnist")
    output = project.attempt("1") / "outputs" / "model.pkl"
    output.chmod(0o600)
    output.write_text("weights 9")
    refused = project.holdfast("asset", "download", "-l", "assets/mnist.link", "-d", "out")
    assert (refused.code, "was changed after its run ended" in refused.err) == (74, True)
    assert list((project.project / "out").iterdir()) == []


def test_another_file_is_not_replaced_unasked(project: Desk) -> None:
    project.holdfast("history", "promote", "-r", "1", "-ap", "outputs/model.pkl", "-n", "mnist")
    (project.project / "out").mkdir()
    target = project.project / "out" / "mnist"
    target.write_text("mine")
    words = ("asset", "download", "-l", "assets/mnist.link", "-d", "out")
    assert project.holdfast(*words).code == 2
    assert target.read_text() == "mine"
    assert project.holdfast(*words, "--overwrite").code == 0
    assert project.holdfast(*words).code == 0
    assert target.read_text() == "weights 1"


@pytest.mark.parametrize(
    "link",
    [
        '{"name": "../../evil", "version": "1"}',
        '{"name": "/etc/evil", "version": "1"}',
        '{"name": "", "version": "1"}',
        '{"version": "1"}',
        "[]",
        "no json",
        '{"name": "x", "version": "1", "uid": "../../..", "path": "model.pkl", "sha256": "0"}',
        '{"name": "x", "version": "1", "uid": "' + "0" * 32 + '", "path": "a", "sha256": "0"}',
    ],
)
def test_links_that_lie(project: Desk, link: str) -> None:
    (project.project / "bad.link").write_text(link)
    refused = project.holdfast("asset", "download", "-l", "bad.link", "-d", "out")
    assert refused.code in (2, 65)
    assert "ERROR: Holdfast itself" not in refused.err
    assert not (project.project / "out").exists()


def test_a_link_cannot_name_a_file_that_is_no_output(project: Desk) -> None:
    uid = project.record("1")["uid"]
    for path in ("../log", "../../run.json", "/etc/passwd"):
        text = json.dumps({"name": "x", "version": "1", "uid": uid, "path": path, "sha256": "0" * 64})
        (project.project / "bad.link").write_text(text)
        assert project.holdfast("asset", "download", "-l", "bad.link", "-d", "out").code == 2


def test_link_with_a_false_size_or_version_is_refused(project: Desk) -> None:
    project.holdfast("history", "promote", "-r", "1", "-ap", "outputs/model.pkl", "-n", "mnist")
    link = json.loads((project.project / "assets" / "mnist.link").read_text())
    false = {
        "size": (-1, 1, 10**30, True, "9", [9], None),
        "version": ("../../x", "-1", "", "1" * 19, [1], None, True),
    }
    for field, value in ((field, value) for field, values in false.items() for value in values):
        (project.project / "bad.link").write_text(json.dumps({**link, field: value}))
        refused = project.holdfast("asset", "download", "-l", "bad.link", "-d", "out")
        assert refused.code in (65, 74), (field, value, refused)
        assert "bad.link" in refused.err
    assert not (project.project / "out").exists()


def test_content_that_stayed_on_its_machine_is_fetched(desk: Desk, tmp_path: Path) -> None:
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\nroot: {tmp_path / 'elsewhere'}\n")
    desk.trust("local")
    desk.script("open('outputs/large.bin', 'wb').write(bytes(range(256)) * 70_000)")
    assert desk.submit("train.py").code == 0
    assert not (desk.attempt() / "outputs" / "large.bin").exists()
    assert desk.holdfast("history", "promote", "-ap", "outputs/large.bin", "-n", "large").code == 0
    done = desk.holdfast("asset", "download", "-l", "assets/large.link", "-d", "out")
    assert done.code == 0, done.err
    assert (desk.project / "out" / "large").read_bytes() == bytes(range(256)) * 70_000


def test_what_a_killed_promotion_left_costs_that_line_only(project: Desk) -> None:
    words = ("history", "promote", "-r", "1", "-ap", "outputs/model.pkl", "-n", "mnist")
    project.holdfast(*words)
    with (project.home / "assets.jsonl").open("ab") as target:
        target.write(b'{"half": ')
    project.holdfast(*words)
    listed = project.holdfast("asset", "list", "-o", "json").json
    assert [row["version"] for row in listed] == ["2", "1"]


def test_what_cannot_be_promoted(project: Desk) -> None:
    refused = project.holdfast("history", "promote", "-r", "1", "-ap", "outputs/none.pkl", "-n", "x")
    assert (refused.code, "outputs/model.pkl" in refused.err) == (2, True)
    assert project.holdfast("history", "promote", "-r", "1", "-ap", "outputs/model.pkl", "-n", "../x").code == 2
    assert not (project.project / "assets").exists()
