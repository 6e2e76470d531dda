"""Every file that can be made again, cut at many places or overwritten: the next submit works as if nothing were."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

DERIVED = ("cache", "runner", "shims", "solved", "index.sqlite", "index.sqlite.records", "index.sqlite.sum")
SCRIPT = "import holdfast\nholdfast.log('x', 1)\nprint('ran')\n"


def derived_files(desk: Desk) -> list[Path]:
    found = [desk.home / name for name in DERIVED if (desk.home / name).is_file()]
    for name in DERIVED:
        found += [path for path in (desk.home / name).rglob("*") if path.is_file()]
    return sorted(found)


def damages(path: Path, seed: int) -> Iterator[bytes]:
    """Its content cut at both ends' neighbours and somewhere between, emptied, and as garbage of the same length."""
    content, choose = path.read_bytes(), random.Random(f"{seed} {path.name}")
    places = {0, 1, 16, len(content) // 2, len(content) - 1, choose.randrange(len(content) + 1)}
    yield from (content[:at] for at in sorted(places) if 0 <= at < len(content))
    yield choose.randbytes(len(content))


def submit(desk: Desk) -> None:
    result = desk.submit("train.py")
    assert (result.code, "ran\n" in result.text) == (0, True), result
    assert desk.holdfast("history", "list").code == 0


@pytest.fixture
def used(desk: Desk) -> Desk:
    """A desk with everything that a submit leaves behind."""
    desk.script(SCRIPT)
    subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
    submit(desk)
    submit(desk)
    names = {str(path.relative_to(desk.home)).split("/")[0] for path in derived_files(desk)}
    assert names >= {"cache", "runner", "shims", "index.sqlite"}
    return desk


def test_all_derived_files_damaged_at_once(used: Desk) -> None:
    for seed in range(int(os.environ.get("HOLDFAST_TEST_ROUNDS", "6"))):
        for path in derived_files(used):
            path.chmod(0o600)
            choices = list(damages(path, seed))
            path.write_bytes(choices[seed % len(choices)])
        submit(used)


def test_one_derived_file_damaged_at_a_time(used: Desk) -> None:
    """The modules of the runner are many and alike: those that are read first, last and in between stand for all."""
    every = derived_files(used)
    modules = [path for path in every if "/runner/" in str(path)]
    few = [
        path for path in modules if path.stem in ("serve", "holdfast", "state") or path.name.endswith("-runner.serve")
    ]
    for number, path in enumerate([path for path in every if path not in modules] + few):
        if path.exists():  # a runner that was unpacked anew has not all of it yet
            cut, garbage = path.read_bytes()[: path.stat().st_size // 2], list(damages(path, 1))[-1]
            path.write_bytes(garbage if number % 2 else cut)
            submit(used)


def test_runner_bytecode_is_not_left_to_python(used: Desk) -> None:
    """Python writes bytecode without looking whether all of it arrived, and trusts it afterwards."""
    (runner,) = (used.home / "runner").iterdir()
    assert not list(runner.rglob("*.pyc"))
    assert list((runner / "code").iterdir())
    assert all(path.is_file() for path in runner.rglob("__pycache__"))


def test_a_folder_or_link_in_place_of_a_derived_file(used: Desk) -> None:
    (runner,) = (used.home / "runner").iterdir()
    (runner / "runner" / "server.py").unlink()
    (runner / "runner" / "server.py").mkdir()
    submit(used)
    for name in ("runner", "upkeep"):
        path = used.home / "cache" / name
        path.unlink(missing_ok=True)
        path.mkdir()
        submit(used)
        path.rmdir()
        path.symlink_to("/nonexistent/place")
        submit(used)


def test_short_bytecode_of_our_own_modules_is_compiled_again(desk: Desk, tmp_path: Path) -> None:
    package = tmp_path / "installed" / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    desk.script("print('ran')\n")
    env = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": ""}

    def run() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "holdfast", "submit", "-c", "local", "train.py"]
        return subprocess.run(
            words, cwd=desk.project, env={**desk.env, **env}, capture_output=True, text=True, check=False
        )

    assert run().returncode == 0
    early, late = package / "cli" / "table" / "commands.py", package / "engine" / "submit" / "submit.py"
    for source, tries in ((early, 1), (late, 2)):
        bytecode = Path(importlib.util.cache_from_source(str(source)))
        whole = bytecode.read_bytes()
        for at in (20, len(whole) // 2, len(whole) - 1):
            bytecode.write_bytes(whole[:at])
            codes = [run().returncode for _ in range(tries)]
            assert codes[-1] == 0, codes
            assert 70 not in codes
