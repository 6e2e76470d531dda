"""The packages of an interpreter, listed by the program that every Python runs for it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.submit.recorded_environment import declare
from holdfast.location import PACKAGE
from holdfast.runner.machine.package_record import checked, interpreter_of
from lab.pythons import VERSIONS, python_of

PROGRAM = Path(PACKAGE) / "runner" / "machine" / "installed_packages.py"


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    return python_of(request.param)


def listed(python: str, folder: Path, *apart: str) -> dict[str, Any]:
    env = {"PYTHONPATH": str(folder), "HOME": str(folder)}
    done = subprocess.run([python, "-B", str(PROGRAM), *apart], capture_output=True, check=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def metadata(folder: Path, name: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        (folder / name / file.replace("__", ".")).write_text(text)


def test_every_kind_of_installation_is_listed_by_every_python(python: str, tmp_path: Path) -> None:
    metadata(tmp_path, "Plain_Name-1.2.dist-info", INSTALLER="pip\n")
    metadata(tmp_path, "old-0.9-py3.6.egg-info")
    metadata(tmp_path, "developed.egg-info", **{"PKG-INFO": "Name: developed\nVersion: 3.0\n"})
    git = {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    metadata(tmp_path, "cloned-2.0.dist-info", direct_url__json=json.dumps(git))
    edit = {"url": "file:///src/edit", "dir_info": {"editable": True}}
    metadata(tmp_path, "edit-2.1.dist-info", direct_url__json=json.dumps(edit))
    found = listed(python, tmp_path)
    packages = {package["name"]: package for package in found["packages"]}
    assert packages["plain-name"] == {"name": "plain-name", "version": "1.2", "installer": "pip"}
    assert packages["old"]["version"] == "0.9"
    assert packages["developed"] == {
        "name": "developed",
        "version": "3.0",
        "url": f"file://{tmp_path}",
        "editable": True,
    }
    assert (packages["cloned"]["commit"], packages["cloned"]["url"]) == ("a" * 40, "https://host/x.git")
    assert (packages["edit"]["editable"], packages["edit"]["url"]) == (True, "file:///src/edit")
    assert found["python"]["path"] == python
    assert found["state"][str(tmp_path)]


def test_packages_of_the_run_itself_are_not_listed(tmp_path: Path) -> None:
    metadata(tmp_path / "work", "own-1.0.dist-info")
    found = listed(python_of("3.11"), tmp_path / "work", str(tmp_path))
    assert "own" not in [package["name"] for package in found["packages"]]


def test_conda_packages_are_listed_with_build_and_channel(tmp_path: Path) -> None:
    python = python_of("3.11")
    subprocess.run([python, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    meta = tmp_path / "env" / "conda-meta"
    meta.mkdir()
    meta.joinpath("open-ssl-3.1-h1_0.json").write_text('{"channel": "https://conda.anaconda.org/conda-forge/linux-64"}')
    found = listed(str(tmp_path / "env" / "bin" / "python"), tmp_path)
    channel = "https://conda.anaconda.org/conda-forge/linux-64"
    assert found["conda"] == [{"name": "open-ssl", "version": "3.1", "build": "h1_0", "channel": channel}]
    text = declare(found).text
    assert "  - conda-forge\n" in text
    assert "  - open-ssl=3.1=h1_0\n" in text


def test_logins_in_addresses_are_not_recorded() -> None:
    url = "https://user:secret@host/x.git"
    told = {"python": {"version": "3.11"}, "packages": [{"name": "x", "version": "1", "url": url}]}
    content, summary = checked(told)
    assert b"secret" not in content
    assert summary["packages"] == 1


@pytest.mark.parametrize("told", [None, [], {}, {"python": 3}, {"python": None, "packages": []}])
def test_what_is_no_list_of_packages_is_refused(told: object) -> None:
    with pytest.raises(ValueError, match="not a list"):
        checked(told)


def test_interpreter_of_a_command_is_found_by_its_first_line(tmp_path: Path) -> None:
    for name, text in (("python9", ""), ("tool", f"#!{tmp_path}/python9\n"), ("other", "#!/usr/bin/env python9\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    (tmp_path / "train.sh").chmod(0o755)
    (tmp_path / "python3").symlink_to("python9")
    env = {b"PATH": str(tmp_path).encode()}
    python9 = str(tmp_path / "python9").encode()
    assert interpreter_of(b"python9", env) == python9
    assert interpreter_of(str(tmp_path / "tool").encode(), env) == python9
    assert interpreter_of(b"other", env) == python9
    assert interpreter_of(b"python", env) == interpreter_of(b"train.sh", env) == str(tmp_path / "python3").encode()


def test_recorded_packages_become_pins_and_name_what_cannot_be_installed_again() -> None:
    rows = [
        {"name": "numpy", "version": "1.26.4", "installer": "pip"},
        {"name": "torch", "version": "2.1.0+cu118", "installer": "uv"},
        {"name": "pip", "version": "23.0", "installer": "pip"},
        {"name": "mine", "version": "0.1", "url": "file:///home/ada/mine", "editable": True},
        {
            "name": "lib",
            "version": "1",
            "url": "https://host/x.git",
            "vcs": "git",
            "commit": "ab" * 20,
            "subdirectory": "d",
        },
        {"name": "python-apt", "version": "2.6.0", "installer": "system"},
    ]
    found = declare({"packages": rows, "conda": []}, allow_urls=True)
    assert found.file == "requirements.txt"
    assert found.text.splitlines() == [
        "--extra-index-url https://download.pytorch.org/whl/cu118",
        "numpy==1.26.4",
        "torch==2.1.0+cu118",
        f"lib @ git+https://host/x.git@{'ab' * 20}#subdirectory=d",
    ]
    assert dict(found.left_out) == {
        "mine": "it was installed from file:///home/ada/mine, and only plain https addresses are used",
        "python-apt": "it was installed by the operating system",
    }


HOSTILE_PACKAGES: list[dict[str, Any]] = [
    {"url": "https://host/x.whl\n--index-url https://evil/simple"},
    {"url": "https://host/x.whl\n"},
    {"url": "https://host/x.whl -r /etc/passwd"},
    {"url": "https://user:word@host/x.whl"},
    {"url": "https://-oProxyCommand=x/x.whl"},
    {"url": "https://host/${HOME}/x.whl"},
    {"url": "http://host/x.whl"},
    {"url": "FILE:///etc/x"},
    {"url": " file:///etc/x"},
    {"url": "/etc/x"},
    {"url": "ext::sh -c id", "vcs": "git", "commit": "a" * 40},
    {"url": "ssh://-oProxyCommand=id/x", "vcs": "git", "commit": "a" * 40},
    {"url": "https://host/x.git", "vcs": "git", "commit": "main"},
    {"url": "https://host/x.git", "vcs": "git", "commit": "a" * 40 + "\n"},
    {"url": "https://host/x.git", "vcs": "hg", "commit": "a" * 40},
    {"url": "https://host/x.git", "vcs": "git\n-r /etc/passwd", "commit": "a" * 40},
    {"url": "https://host/x.git", "vcs": "git", "commit": "a" * 40, "subdirectory": "d\n--find-links /x"},
    {"url": "https://host/x.git", "vcs": "git", "commit": "a" * 40, "subdirectory": "d/../../x"},
    {"name": "x\n"},
    {"name": "-r"},
    {"version": "1\n"},
    {"version": "1 --index-url https://evil"},
    {"version": "1.*"},
    {"version": "not-a-version"},
]


@pytest.mark.parametrize("fields", HOSTILE_PACKAGES, ids=repr)
def test_hostile_field_of_a_recorded_package_is_left_out_and_named(fields: dict[str, Any]) -> None:
    row = {"name": "x", "version": "1", **fields}
    found = declare({"packages": [row]}, allow_urls=True)
    assert found.text == ""
    assert [name for name, _ in found.left_out] == [row["name"]]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x\n"},
        {"version": "1\n  - pip:\n    - evil"},
        {"build": "0\n  - pip:\n    - evil"},
        {"build": "0 # x"},
        {"channel": "https://host/c\n  - evil"},
        {"channel": "file:///tmp/c"},
        {"channel": "/tmp/c"},
        {"channel": "conda-forge\n"},
    ],
    ids=repr,
)
def test_hostile_field_of_a_recorded_conda_package_is_left_out_and_named(fields: dict[str, Any]) -> None:
    row = {"name": "x", "version": "1", "build": "0", "channel": "conda-forge", **fields}
    found = declare({"conda": [row]}, allow_urls=True)
    assert found.text == ""
    assert [name for name, _ in found.left_out] == [row["name"]]


def test_sources_that_a_record_names_are_used_only_if_the_user_allows_them() -> None:
    url = "https://host/x-1-py3-none-any.whl"
    packages = [{"name": "x", "version": "1", "url": url}, {"name": "y", "version": "2"}]
    channels = ["https://conda.anaconda.org/someone/linux-64", "https://host/channel/noarch", "conda-forge"]
    conda = [{"name": f"c{n}", "version": "1", "build": "0", "channel": name} for n, name in enumerate(channels)]
    refused = declare({"packages": packages, "conda": conda})
    assert refused.text == "channels:\n  - conda-forge\ndependencies:\n  - c2=1=0\n  - pip:\n    - y==2\n"
    assert dict(refused.left_out) == {
        "x": f"it was installed from {url}; --allow-urls installs it from there",
        "c0": "its channel is someone; --allow-urls installs it from there",
        "c1": "its channel is https://host/channel; --allow-urls installs it from there",
    }
    allowed = declare({"packages": packages, "conda": conda}, allow_urls=True)
    assert allowed.left_out == ()
    assert f"    - x @ {url}\n" in allowed.text
    assert "  - someone\n  - https://host/channel\n  - conda-forge\n" in allowed.text
