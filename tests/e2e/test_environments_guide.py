"""The conda files printed in the guide run as printed, and what ``env fix`` makes of them runs without warnings."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import managed
from lab.channel import build_old_channel
from lab.index import Index, Wheel, build_index_of
from lab.machine_python import OLDEST
from lab.server import serve
from managed import environments, lend_packages, manage, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk
    from lab.server import Server

pytestmark = pytest.mark.skipif(not OLDEST.exists(), reason="NOT TESTED: there is no Python 3.6.15 of pyenv here")

GUIDE = Path(__file__).resolve().parent.parent / "corpus" / "environments" / "guide"
# Several languages print the very same file; it is built once.
FILES = {path.read_bytes(): path for path in sorted(GUIDE.glob("*/*.yml"), reverse=True)}.values()
REPLACED = {
    "cntk": "cntk.ai no longer has wheels",
    "cntk-1bit": "with 1-bit SGD in the ordinary GPU build",
    "tensorflow": "tensorflow-gpu==2.6.2 is used in its place",
}
FIXED = {"cntk": "cntk_gpu 2.7", "cntk-1bit": "cntk_gpu 2.7", "tensorflow": "tensorflow_gpu 2.6.2"}
SAYS = """
import importlib, sys
for name in ("cntk_gpu", "tensorflow_gpu"):
    try:
        module = importlib.import_module(name)
    except ImportError:
        continue
    print(name, module.VERSION, "with numpy", module.numpy.VERSION, "on", sys.version.split()[0], "in", sys.prefix)
"""


def for_oldest(name: str, version: str, *requires: str, tag: str = "manylinux1") -> Wheel:
    """A wheel with the name, the version and the tags that the public index has it with."""
    source = f"VERSION = {version!r}\n" + ("import numpy\n" if requires else "")
    whole_tag = f"cp36-cp36m-{tag}_x86_64"
    return Wheel(name, version, source, requires, whole_tag, requires_python=">=3.6")


def index() -> Index:
    wheels = [
        for_oldest("cntk_gpu", "2.5.1", "numpy>=1.11", "scipy>=0.17"),
        for_oldest("cntk_gpu", "2.7", "numpy>=1.11", "scipy>=0.17"),
        for_oldest("tensorflow_gpu", "2.6.2", "numpy~=1.19.2", tag="manylinux2010"),
        for_oldest("tensorflow_gpu", "1.15.5", tag="manylinux2010"),
        for_oldest("numpy", "1.19.5"),
        for_oldest("scipy", "1.5.4"),
        Wheel("pip", "21.3.1", "", requires_python=">=3.6"),
        # Without a version, or with another Python.
        Wheel("tensorflow_gpu", "2.12.0", "", tag="cp37-cp37m-manylinux2010_x86_64", requires_python=">=3.7"),
        Wheel("numpy", "2.3.0", "", tag="cp311-cp311-manylinux_2_28_x86_64", requires_python=">=3.11"),
    ]
    return build_index_of(managed.SHELF, "guide-index-2", wheels)


@pytest.fixture
def served() -> Iterator[Server]:
    with serve(index().path) as server:
        yield server


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_guide_file_runs_as_printed_with_a_python_of_the_channel(desk: Desk, served: Server, file: Path) -> None:
    """This machine's own Python is too new for every one of them."""
    declared = declare(desk, served, file)
    text = f"channels:\n- {build_old_channel(managed.SHELF).file_url}\n- nodefaults\n{file.read_text()}"
    declared.write_text(text)
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert result.err.count("warning: Python 3.5.2 is too old") == 1
    assert REPLACED[file.stem] in result.err
    assert result.err.count("or run: holdfast env fix") == 2
    assert declared.read_text() == text
    assert_runs(desk, result.text, file)
    (row,) = environments(desk)
    assert row["python"] == OLDEST.name


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_fix_writes_is_built_on_a_python_that_fits(desk: Desk, served: Server, file: Path) -> None:
    """No channel is asked then: the file is exactly the guide's."""
    declare(desk, served, file).write_bytes(file.read_bytes())
    manage_oldest(desk)
    assert desk.holdfast("env", "fix").code == 0
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert "warning" not in result.err
    assert_runs(desk, result.text, file)


def test_tensorflow_1_script_gets_tensorflow_1(desk: Desk, served: Server) -> None:
    file = GUIDE / "ja" / "tensorflow.yml"
    declare(desk, served, file).write_bytes(file.read_bytes())
    manage_oldest(desk)
    desk.script("import tensorflow_gpu as tf\nprint(tf.VERSION)\nif 0:\n    import tensorflow as t\n    t.Session()\n")
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert "1.15.5\n" in result.text
    assert "tensorflow-gpu==1.15.5 is used in its place" in result.err


def test_pip_line_of_the_guide_declares_what_the_next_run_replaces(desk: Desk, served: Server) -> None:
    """``pip install tensorflow-gpu``, typed into the command prompt of the project."""
    declared = declare(desk, served, GUIDE / "ja" / "tensorflow.yml")
    manage_oldest(desk)
    with desk.start("shell", stdin=subprocess.PIPE, env={"SHELL": "/bin/bash"}) as shell:
        out, err = shell.communicate(b"pip install tensorflow-gpu\n", timeout=120)
    assert shell.returncode == 0, err
    assert not declared.exists()
    assert (desk.project / "requirements.txt").read_text() == "tensorflow-gpu\n", out
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert "tensorflow-gpu==2.6.2 is used in its place" in result.err
    assert "tensorflow_gpu 2.6.2 with numpy 1.19.5" in result.text


def declare(desk: Desk, served: Server, file: Path) -> Path:
    manage(desk)
    lend_packages(desk)
    desk.script(SAYS)
    desk.env["UV_DEFAULT_INDEX"] = index().simple(served.url)
    return desk.project / "aml_config" / "conda_dependencies.yml"


def manage_oldest(desk: Desk) -> None:
    text = f"type: local\nuserManagedEnvironment: false\npythonLocation: {OLDEST}/bin/python\n"
    (desk.project / "aml_config" / "local.compute").write_text(text)


def assert_runs(desk: Desk, said: str, file: Path) -> None:
    wanted = "cntk_gpu 2.5.1" if "cntk_gpu-2.5.1" in file.read_text() else FIXED[file.stem]
    (row,) = environments(desk)
    assert f"{wanted} with numpy 1.19.5 on {OLDEST.name} in {desk.home}/envs/{row['key']}\n" in said
