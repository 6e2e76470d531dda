"""Programs that are sent alone to another Python, run as they are sent, by every Python that a target may have."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.connection import bundle
from holdfast.location import PACKAGE
from holdfast.runner.machine import store_locations
from lab.pythons import VERSIONS, python_of

ALONE = ["runner/bootstrap.py", "runner/machine/store_locations.py", "runner/run/login_shell.py"]


@pytest.fixture(params=[version for version in VERSIONS if version != "2.7"])
def python(request: pytest.FixtureRequest) -> str:
    return python_of(request.param)


def run(python: str, name: str, asked: dict[str, Any], **more: Any) -> subprocess.CompletedProcess[bytes]:
    argv = [python, *bundle.standalone(name, asked)]
    return subprocess.run(argv, capture_output=True, check=False, timeout=60, **more)


def test_store_locations_of_a_machine(python: str, tmp_path: Path) -> None:
    done = run(
        python, "runner/machine/store_locations.py", {"home": str(tmp_path / "a" / "store"), "prefix": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["built"] is True
    assert found["clones"] is False  # the store is not there
    disk = os.stat(tmp_path).st_dev
    for name, free, inodes, read_only, no_exec in found["places"]:
        assert os.stat(os.path.dirname(name)).st_dev != disk
        assert free >= 0
        assert inodes is None or inodes >= 0
        assert {read_only, no_exec} <= {True, False}


def test_store_locations_are_on_other_disks_and_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv("HOME", str(tmp_path))
    store = tmp_path / ".holdfast"
    store.mkdir()
    assert store_locations.can_clone(str(store)) in (True, False)
    assert list(store.iterdir()) == []
    here, memory = os.stat(tmp_path).st_dev, os.stat("/dev/shm").st_dev
    if here == memory:
        pytest.skip("NOT TESTED: /tmp and /dev/shm are on one disk here")
    names = [place[0] for place in store_locations.places(str(store))]
    assert "/dev/shm/holdfast-ada" in names
    assert str(store) not in names
    assert str(store) in [place[0] for place in store_locations.places("/dev/shm/store")]


def test_environment_that_is_not_built_or_not_asked_for(tmp_path: Path) -> None:
    assert store_locations.answer(str(tmp_path), str(tmp_path / "none"))["built"] is False
    assert store_locations.answer(str(tmp_path), "")["built"] is False


def test_login_shell_starts_in_the_work_folder(python: str, tmp_path: Path) -> None:
    work = tmp_path / "caf\udce9" / "work"
    work.mkdir(parents=True)
    asked = {"store": str(tmp_path), "folders": ["caf\udce9/work", "caf\udce9"], "command": []}
    done = run(python, "runner/run/login_shell.py", asked, input=b"pwd; echo $0\n", env={"SHELL": "/bin/sh"})
    assert done.stdout == os.fsencode(work) + b"\n-sh\n", done


def test_login_shell_says_that_the_work_folder_is_gone(tmp_path: Path) -> None:
    (tmp_path / "a1").mkdir()
    asked = {"store": str(tmp_path), "folders": ["a1/work", "a1"], "command": []}
    done = run(sys.executable, "runner/run/login_shell.py", asked, input=b"pwd\n", env={"SHELL": "/bin/sh"})
    assert done.stdout == os.fsencode(tmp_path / "a1") + b"\n"
    assert b"work folder was removed" in done.stderr


def test_login_shell_of_a_run_that_is_gone_fails(tmp_path: Path) -> None:
    asked = {"store": str(tmp_path), "folders": ["a1/work", "a1"], "command": []}
    done = run(sys.executable, "runner/run/login_shell.py", asked, input=b"pwd\n", env={"SHELL": "/bin/sh"})
    assert (done.returncode, done.stdout) == (1, b"")


def test_login_shell_becomes_a_command_in_the_container(python: str, tmp_path: Path) -> None:
    asked = {"store": str(tmp_path), "folders": ["a1/work", "a1"], "command": ["/bin/echo", "exec", "box", "sh"]}
    done = run(python, "runner/run/login_shell.py", asked, stdin=subprocess.DEVNULL)
    assert done.stdout.decode().split() == ["exec", "--interactive", "--workdir", f"{tmp_path}/a1/work", "box", "sh"]


@pytest.mark.parametrize("name", ALONE)
def test_program_that_is_sent_alone_imports_none_of_our_modules(name: str) -> None:
    tree = ast.parse((Path(PACKAGE) / name).read_text(encoding="ascii"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    assert [ast.unparse(node) for node in imported if node.level or (node.module or "").startswith("holdfast")] == []
    assert names <= sys.stdlib_module_names
