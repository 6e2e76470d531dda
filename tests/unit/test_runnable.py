"""What the words after the options of ``submit`` mean, by the files that they name."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from holdfast.engine.submit.runnable import Runnable, understand
from holdfast.errors import ConfigError, UsageError
from holdfast.ports import PYTHON

NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("bin", "data", "pkg/tool", "src/inner"):
        (root / folder).mkdir(parents=True)
    texts = {
        "train.py": "",
        "train.sh": "#!/bin/bash -e\necho\n",
        "plain.sh": "echo\n",
        "model.R": "print(1)\n",
        "job": "#!/usr/bin/env python3\n",
        "split": "#!/usr/bin/env -S python3 -u\n",
        "options.py": "#!/usr/bin/env -S python3 -OO -X dev -Werror\n",
        "other": "print('no line says what this is')\n",
        "dos.sh": "#!/bin/sh\r\necho\r\n",
        "-odd.sh": "echo\n",
        "note.ipynb": json.dumps(NOTEBOOK),
        "pkg/__init__.py": "",
        "pkg/train.py": "",
        "pkg/tool/__main__.py": "",
        "src/inner/go.py": "",
        "data/table.csv": "",
    }
    for name, text in texts.items():
        (root / name).write_bytes(text.encode())
    shutil.copy("/bin/true", root / "bin" / "prog")
    return root


def read(root: Path, *words: str, after_dashes: bool = False, folder: str = "") -> Runnable:
    return understand(str(root), str(root / folder), words, after_dashes=after_dashes)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("train.py", "--lr", "1"), Runnable("train.py", ("--lr", "1"))),
        (("other",), Runnable("other", ())),
        (("job", "-x"), Runnable("job", ("-x",))),
        (("split",), Runnable("split", (), (PYTHON, "-u", "split"), "split")),
        (
            ("options.py", "-x"),
            Runnable("options.py", ("-x",), (PYTHON, "-OO", "-X", "dev", "-Werror", "options.py"), "options.py"),
        ),
        (("train.sh", "a"), Runnable("train.sh", ("a",), ("/bin/bash", "-e", "train.sh"), "train.sh")),
        (("dos.sh",), Runnable("dos.sh", (), ("/bin/sh", "dos.sh"), "dos.sh")),
        (("plain.sh",), Runnable("plain.sh", (), ("bash", "plain.sh"), "plain.sh")),
        (("-odd.sh",), Runnable("-odd.sh", (), ("bash", "./-odd.sh"), "-odd.sh")),
        (("model.R",), Runnable("model.R", (), ("Rscript", "model.R"), "model.R")),
        (("./bin/prog", "1"), Runnable("bin/prog", ("1",), ("./bin/prog",), "bin/prog")),
        (("note.ipynb",), Runnable("note.ipynb", (), (PYTHON, "-m", "holdfast_notebook", "note.ipynb"), "note.ipynb")),
        (("-m", "pkg.train", "-m"), Runnable("-m pkg.train", ("-m",), (PYTHON, "-m", "pkg.train"), "pkg/train.py")),
        (("-m", "pkg.tool"), Runnable("-m pkg.tool", (), (PYTHON, "-m", "pkg.tool"), "pkg/tool/__main__.py")),
        (("-m", "inner.go"), Runnable("-m inner.go", (), (PYTHON, "-m", "inner.go"), "src/inner/go.py")),
        (
            ("-m", "torch.distributed.run"),
            Runnable("-m torch.distributed.run", (), (PYTHON, "-m", "torch.distributed.run"), ""),
        ),
        (("-m", "data"), None),
        (("python", "-m", "pkg.train"), Runnable("-m pkg.train", (), (PYTHON, "-m", "pkg.train"), "pkg/train.py")),
        (("python3", "train.py", "1"), Runnable("train.py", ("1",))),
        (("python", "-u", "train.py"), Runnable("python", ("-u", "train.py"), (PYTHON,), "train.py")),
        (
            ("torchrun", "--nproc-per-node", "2", "./train.py"),
            Runnable("torchrun", ("--nproc-per-node", "2", "./train.py"), ("torchrun",), "train.py"),
        ),
        (("/opt/none/prog", "../x.py"), Runnable("/opt/none/prog", ("../x.py",), ("/opt/none/prog",), "")),
        (("/bin/sh", "-c", "ls"), Runnable("/bin/sh", ("-c", "ls"), ("/bin/sh",), "")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_words_are_understood_by_the_files_they_name(
    root: Path, words: tuple[str, ...], expected: Runnable | None
) -> None:
    assert read(root, *words) == (expected or Runnable("-m data", (), (PYTHON, "-m", "data"), ""))


def test_program_with_the_name_of_a_script_needs_dashes(root: Path) -> None:
    for named in ("train", "trian"):
        with pytest.raises(UsageError, match="no such script") as caught:
            read(root, named)
        assert caught.value.hint == f"did you mean train.py? To run a program of that name: -- {named}"
        assert read(root, named, after_dashes=True).command == (named,)
    with pytest.raises(UsageError, match="no such script"):
        read(root, "missing.py", after_dashes=True)


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (("pkg",), "pkg is a folder", "name a file in it, or a module: -m pkg.train"),
        (("pkg/tool",), "pkg/tool is a folder", "run it as a module: -m pkg.tool"),
        (("/usr",), "/usr is a folder", "name a file in it, or a module: -m pkg.train"),
        (("-m",), "-m needs a module", "holdfast submit -c local -m pkg.train"),
        (("-m", "train.py/x"), "'train.py/x' is not the name of a module", "holdfast submit -c local -m pkg.train"),
        (("-m", "pkg.trian"), "no module named pkg.trian in the project", "did you mean -m pkg.train?"),
        (
            ("-m", "pkg"),
            "the package pkg has no __main__.py",
            "a package is run by its __main__.py; its modules: pkg.train",
        ),
        (("python",), "python needs a script or -m MODULE", "holdfast submit -c local -- python -m pkg.train"),
        (("../other.sh",), "no such script", ""),
    ],
)
def test_word_that_cannot_be_run_is_refused_with_what_to_type(
    root: Path, words: tuple[str, ...], what: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(what)) as caught:
        read(root, *words)
    assert hint in caught.value.hint


def test_module_beside_the_caller_is_named_from_the_project(root: Path) -> None:
    (root / "pkg" / "tool" / "work.py").touch()
    with pytest.raises(UsageError, match="work is not in the project's folder") as caught:
        read(root, "-m", "work", folder="pkg/tool")
    assert caught.value.hint == "did you mean -m pkg.tool.work?"


def test_compiled_program_that_is_not_executable_is_refused(root: Path) -> None:
    os.chmod(root / "bin" / "prog", 0o644)
    with pytest.raises(ConfigError, match="bin/prog is not executable") as caught:
        read(root, "bin/prog")
    assert caught.value.hint == "chmod +x bin/prog"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("not JSON", "is not a notebook"),
        ("[]", "is not a notebook"),
        ('{"nbformat": 4}', "is not a notebook"),
        ('{"nbformat": 3, "worksheets": []}', "has the old notebook format 3"),
    ],
)
def test_file_that_is_no_notebook_of_today_is_refused(root: Path, text: str, what: str) -> None:
    (root / "note.ipynb").write_text(text)
    with pytest.raises(ConfigError, match=what):
        read(root, "note.ipynb")


def test_empty_name_of_a_program_is_refused_as_such(root: Path) -> None:
    for after_dashes in (False, True):
        with pytest.raises(UsageError, match="the name of the script or program is empty"):
            read(root, "", after_dashes=after_dashes)


@pytest.mark.parametrize("option", ["-I", "-sE", "-S", "-c", "-", "x.py"])
def test_python_option_of_the_first_line_that_a_run_cannot_have_is_refused(root: Path, option: str) -> None:
    (root / "train.py").write_text(f"#!/usr/bin/python3 {option}\n")
    with pytest.raises(ConfigError, match="cannot be used in a run") as caught:
        read(root, "train.py")
    assert caught.value.where == f"{root}/train.py:1"
