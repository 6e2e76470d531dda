"""Which Python ran a script, and its packages: in the record of every run."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from lab.pythons import python_of

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk


def add_package(environment: Path, name: str, **files: str) -> None:
    site = next((environment / "lib").glob("python*/site-packages"))
    (site / name).mkdir()
    for file, text in files.items():
        (site / name / file).write_text(text)
    os.utime(site, (1_700_000_000 + len(list(site.iterdir())),) * 2)  # not just now: the list may be kept


def make_environment(place: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    return place


def test_packages_of_the_interpreter_are_recorded_once_and_shared(desk: Desk, tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv")
    python = str(environment / "bin" / "python")
    git = {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "c" * 40}}
    add_package(environment, "Cloned-1.0.dist-info", **{"direct_url.json": json.dumps(git)})
    desk.script("raise SystemExit(3)\n")
    for _ in range(2):
        assert desk.submit("--python", python, "train.py").code == 3
    record = desk.record()
    assert record["interpreter"]["path"] == python
    assert (record["interpreter"]["environment"], record["interpreter"]["kind"]) == (str(environment), "venv")
    assert record["interpreter"]["version"] == platform.python_version()
    assert ", 1 package: " in desk.holdfast("info", "-o", "table").text
    assert record["packages"] == [
        {"name": "cloned", "version": "1.0", "url": "https://host/x.git", "commit": "c" * 40, "vcs": "git"}
    ]
    files = [desk.home / "runs" / desk.record(run)["uid"] / "a1/metrics/packages.json" for run in ("1", "2")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not os.path.samefile(*files), "damage to one is no damage to the others"
    add_package(environment, "fresh-2.0.dist-info")
    assert desk.submit("--python", python, "train.py").code == 3
    assert [package["name"] for package in desk.record()["packages"]] == ["cloned", "fresh"]
    rows = desk.holdfast("info", "--packages", "-o", "tsv").text
    assert rows.splitlines()[-1] == "fresh\t2.0"
    differing = desk.holdfast("compare", "-r", "2", "-r", "3", "-o", "json").json
    section = next(section for section in differing["sections"] if section["title"] == "environment")
    assert [row["values"] for row in section["rows"] if row["differs"]] == [[None, "2.0"]]
    assert desk.holdfast("store", "verify").code == 0


def test_interpreter_behind_a_shim_is_the_one_that_is_recorded(desk: Desk, tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "venv")
    shim = tmp_path / "shims" / "python"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {environment}/bin/python "$@"\n')
    shim.chmod(0o755)
    desk.script("print(1)\n")
    assert desk.submit("--python", str(shim), "train.py").code == 0
    assert desk.record()["interpreter"]["environment"] == str(environment)


def test_changed_list_of_packages_is_found_by_verify_and_not_shown(desk: Desk) -> None:
    desk.script("print(1)\n")
    assert desk.submit("train.py").code == 0
    path = desk.attempt() / "metrics" / "packages.json"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data.replace(b'"version":"', b'"version":"9', 1))
    assert desk.record()["packages"] is None
    refused = desk.holdfast("info", "--packages")
    assert (refused.code, "no packages were recorded" in refused.err) == (2, True)
    found = desk.holdfast("store", "verify", "-o", "json")
    assert str(path) in {row["path"] for row in found.json}


def test_recorded_packages_travel_with_an_archive(desk: Desk, tmp_path: Path) -> None:
    desk.script("print(1)\n")
    assert desk.submit("train.py").code == 0
    before = desk.record()["packages"]
    assert before
    assert desk.holdfast("history", "export", "-r", "1", "--to", str(tmp_path / "runs.zip")).code == 0
    shutil.rmtree(desk.home)
    imported = desk.holdfast("history", "import", str(tmp_path / "runs.zip"))
    assert imported.code == 0, imported
    assert desk.record()["packages"] == before


def test_old_python_is_recorded_too(desk: Desk) -> None:
    desk.script("print(1)\n")
    assert desk.submit("--python", python_of("2.7"), "train.py").code == 0
    assert desk.record()["interpreter"]["version"].startswith("2.7")
