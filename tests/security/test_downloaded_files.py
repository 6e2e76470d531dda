"""``download`` of a run whose files someone else chose: git and Holdfast act on nothing that it brings."""

from __future__ import annotations

from conftest import Desk

SCRIPT = """import os
for path in ("outputs/sub/.git/hooks/pre-commit", "outputs/model.txt", "aml_config/box.compute", "notes.txt"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as sink: sink.write("#!/bin/sh\\n")
"""


def test_download_brings_nothing_that_git_or_holdfast_acts_on_unless_it_is_named(desk: Desk) -> None:
    desk.script(SCRIPT)
    desk.submit("train.py")
    done = desk.holdfast("download", "-r", "1", "-d", "got")
    assert done.code == 0, done
    got = desk.project / "got"
    assert (got / "outputs" / "model.txt").exists()
    assert (got / "notes.txt").exists()
    assert not list(got.rglob("pre-commit"))
    assert not (got / "aml_config").exists()
    assert "not copied: got/outputs/sub/.git/hooks/pre-commit (reserved; holdfast history download -r " in done.err
    named = desk.holdfast("download", "-r", "1", "-a", "outputs/sub/.git/hooks/pre-commit", "-d", "one")
    assert named.code == 0, named
    assert list((desk.project / "one").rglob("pre-commit"))


def test_download_writes_through_no_symbolic_link_of_the_folder(desk: Desk) -> None:
    desk.script("with open('outputs/model.txt', 'w') as sink: sink.write('new')")
    desk.submit("train.py")
    elsewhere = desk.project.parent / "elsewhere"
    elsewhere.mkdir()
    (desk.project / "got").mkdir()
    (desk.project / "got" / "outputs").symlink_to(elsewhere)
    done = desk.holdfast("download", "-r", "1", "-d", "got")
    assert done.code == 74, done
    assert "a symbolic link leads out of" in done.err
    assert list(elsewhere.iterdir()) == []
