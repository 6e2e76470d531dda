"""Files of a built environment that were damaged on disk: one run fails and says so, the next one has them again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import managed
from holdfast.runner.store.remove_tree import remove_tree
from lab.server import serve
from managed import manage, requirements, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Desk
    from lab.server import Server

SCRIPT = "import tinydep\nassert open(tinydep.__file__).read()\nprint('ran')\n"
TOLD = "files of its environment were damaged on disk"


@pytest.fixture(scope="module")
def index() -> Iterator[Server]:
    with serve(managed.index().path) as server:
        yield server


@pytest.fixture
def used(desk: Desk, index: Server) -> Desk:
    """A desk whose environment was built and worked."""
    manage(desk)
    requirements(desk, index.url, "tinydep")
    desk.script(SCRIPT)
    result = desk.submit("train.py")
    assert "ran" in result.text, shown(result)
    return desk


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """In place, so that hard links in the cache of packages are damaged with it."""
    content = change(path.read_bytes())
    path.chmod(0o600)
    path.write_bytes(content)
    path.chmod(0o400)


# The pattern of the file, and what becomes of its content.
DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "bytecode cut": ("tinydep.*.pyc", lambda content: content[:40]),
    "bytecode zeroed at full length": ("tinydep.*.pyc", lambda content: content[:16] + bytes(len(content) - 16)),
    "source emptied, which no message of Python tells": ("tinydep.py", lambda _: b""),
}


def test_damaged_environment_is_reported_by_one_run_and_built_again_by_the_next(used: Desk) -> None:
    for name, (pattern, change) in DAMAGES.items():
        (path,) = used.home.glob(f"envs/*/lib/**/{pattern}")
        _rewrite(path, change)
        failed = used.submit("train.py")
        assert failed.code == 1, name
        key, _, file = str(path.relative_to(used.home / "envs")).partition("/")
        assert f"{TOLD} ({file})" in shown(failed)
        again = used.submit("train.py")
        assert "ran" in again.text, (name, shown(again))
        assert used.holdfast("env", "verify").code == 0
        assert os.listdir(used.home / "envs") == [key]


def test_bytecode_damaged_in_the_cache_before_the_build_is_compiled_again(used: Desk) -> None:
    """The manifest of the second environment has the hash of the damaged file."""
    for path in used.home.glob("cache/packages/pyc/*/*/*"):
        _rewrite(path, lambda content: content[:40])
    remove_tree(os.fsencode(used.home / "envs"))
    failed = used.submit("train.py")
    assert failed.code == 1
    assert f"{TOLD} (its compiled modules)" in shown(failed)
    assert "ran" in used.submit("train.py").text
    used.script("raise SystemExit(3)\n")
    assert used.submit("train.py").code == 3
    assert managed.builds(used) == 3, "a failure in a sound environment is not blamed on it"
    used.script(SCRIPT)
    assert "ran" in used.submit("train.py").text
    assert managed.builds(used) == 3
