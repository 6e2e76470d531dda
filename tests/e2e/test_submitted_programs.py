"""Modules, shell scripts, programs and notebooks as runs; their names and tags."""

from __future__ import annotations

import json
import re
import shutil
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from at_terminal import at_terminal
from lab.shelf import interpreter

if TYPE_CHECKING:
    from conftest import Desk, Result

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import sys, holdfast
from . import part
holdfast.log("loss", part.VALUE * float(sys.argv[2]))
print(__name__, sys.argv[1:], sys.executable)
"""
# What torchrun is: a program of an environment that starts a script several times.
LAUNCHER = """#!{python}
import subprocess, sys
count, script = int(sys.argv[2]), sys.argv[3:]
for rank in range(count):
    subprocess.run([sys.executable, *script, str(rank)], check=True)
"""


@pytest.fixture
def module(desk: Desk) -> Desk:
    desk.script("", "pkg/__init__.py")
    desk.script("VALUE = 3.0\n", "pkg/part.py")
    desk.script(MODULE, "pkg/train.py")
    return desk


@pytest.fixture
def active(tmp_path: Path) -> Path:
    """An environment with a program of its own."""
    place = tmp_path / "active"
    venv.create(place)
    launcher = place / "bin" / "launch"
    launcher.write_text(LAUNCHER.format(python=place / "bin" / "python"))
    launcher.chmod(0o755)
    return place


def kept(desk: Desk, run: str = "last") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((desk.attempt(run).parent / "run.json").read_text())
    return found


def test_python_options_of_the_first_line_are_used(desk: Desk) -> None:
    desk.script(
        "#!/usr/bin/env -S python3 -O -X utf8\nimport sys, holdfast\nprint(__debug__, sys.flags.utf8_mode, sys.argv)\n"
    )
    result = desk.submit("train.py", "--lr", "1")
    assert "False 1 ['train.py', '--lr', '1']" in result.text, result
    assert kept(desk)["command"][1:] == ["-O", "-X", "utf8", "train.py"]


@pytest.mark.parametrize("words", [("-m", "pkg.train"), ("--", "python", "-m", "pkg.train")])
def test_module_is_run_by_the_interpreter_of_the_run_and_again_by_reproduce(
    module: Desk, active: Path, words: tuple[str, ...]
) -> None:
    env = {"VIRTUAL_ENV": str(active)}
    result = module.submit(*words, "--rate", "0.5", env=env)
    assert result.code == 0, result
    assert f"__main__ ['--rate', '0.5'] {active / 'bin' / 'python'}\n" in result.text
    record = module.record()
    assert (record["script_name"], record["arguments"], record["loss"]) == ("-m pkg.train", ["--rate", "0.5"], 1.5)
    assert kept(module)["source"] == "pkg/train.py"
    module.script("raise SystemExit('the working folder ran')\n", "pkg/train.py")
    again = module.holdfast("reproduce", "-o", "json")
    assert again.code == 0, again
    assert again.json["same"] is True
    assert module.record()["script_name"] == "-m pkg.train"


def test_shell_scripts_and_programs_run_in_the_copy_of_the_project(desk: Desk, active: Path) -> None:
    desk.script(
        "#!/bin/sh\necho shell $1 in $(basename $PWD); python -c 'import holdfast, sys; print(sys.prefix)'", "a.sh"
    )
    desk.script('words=(of bash); echo "${words[@]}" > outputs/said\n', "b.sh")
    desk.script("", "bin/note")
    shutil.copy("/bin/echo", desk.project / "bin" / "prog")
    env = {"VIRTUAL_ENV": str(active)}
    result = desk.submit("a.sh", "x y", env=env)
    assert (result.code, result.text.count(f"shell x y in work\n{active}\n")) == (0, 1), result
    assert desk.submit("b.sh").code == 0
    assert (desk.attempt() / "outputs" / "said").read_text() == "of bash\n"
    result = desk.submit("./bin/prog", "--help me")
    assert (result.code, "--help me\n" in result.text) == (0, True), result
    assert [desk.record(str(run))["script_name"] for run in (1, 2, 3)] == ["a.sh", "b.sh", "bin/prog"]


@pytest.mark.parametrize("dashes", [("--",), ()], ids=["after dashes", "alone"])
def test_program_of_the_environment_starts_a_script_several_times(
    desk: Desk, active: Path, dashes: tuple[str, ...]
) -> None:
    desk.script("import sys, holdfast; holdfast.log('rank', int(sys.argv[1])); print('acc:', 0.5)\n")
    result = desk.submit("--scalars", *dashes, "launch", "--count", "2", "train.py", env={"VIRTUAL_ENV": str(active)})
    assert result.code == 0, result
    record = desk.record()
    assert (record["script_name"], record["arguments"]) == ("launch", ["--count", "2", "train.py"])
    assert (sorted(record["rank"]), record["acc"]) == ([0, 1], [0.5, 0.5])
    assert (kept(desk)["command"], kept(desk)["source"]) == (["launch"], "train.py")
    plan = json.loads((desk.attempt() / "plan.json").read_text())
    assert (plan["argv"], plan["python"]) == (["launch", "--count", "2", "train.py"], str(active / "bin" / "python"))


def test_program_beside_a_chosen_interpreter_is_found_first(desk: Desk, active: Path) -> None:
    desk.script("print('ran')\n")
    result = desk.submit("--python", str(active), "--", "launch", "--count", "1", "train.py")
    assert (result.code, "ran\n" in result.text) == (0, True), result


def test_missing_program_ends_with_127_and_the_cause(desk: Desk) -> None:
    desk.script("#!/opt/none/sh\n", "lost.sh")
    desk.script("raise SystemExit(3)\n")
    result = desk.submit("--", "torchrun", "train.py")
    assert result.code == 127
    assert "there is no program torchrun on the PATH of the run" in result.err
    assert "torchrun comes with a Python package; add it with: holdfast env add torch," in result.err
    result = desk.submit("--", "trian", "train.py")
    assert (result.code, "did you mean train.py?" in result.err, "env add" in result.err) == (127, True, False), result
    result = desk.submit("--", "--lr", "0.1", "train.py")
    assert result.code == 127
    assert "env add" not in result.err
    result = desk.submit("lost.sh")
    assert result.code == 127
    assert "/opt/none/sh cannot be started: No such file or directory" in result.err
    assert desk.submit("--", "sh", "-c", "exit 5").code == 5


def test_missing_module_names_the_command_that_adds_it(desk: Desk) -> None:
    desk.script("print(1)\n", "src/inner/go.py")
    result = desk.submit("-m", "no_such_module")
    assert result.code == 1
    assert "the module no_such_module is not installed in" in result.err
    desk.script("raise ModuleNotFoundError(\"No module named 'imp'\", name='imp')")
    result = desk.submit("train.py")
    assert "Python removed the module imp" in result.err
    assert "env add" not in result.err, "a package of that name is another one"
    result = desk.submit("-m", "inner.go")
    assert result.code == 1
    assert "try: holdfast submit -e PYTHONPATH=src -m inner.go\n" in result.err


def test_exit_code_2_without_a_word_about_options_is_the_scripts_own(desk: Desk) -> None:
    desk.script("raise SystemExit(2)")
    result = desk.submit("train.py")
    assert (result.code, "Holdfast itself failed" in result.err) == (2, False), result


def test_options_of_the_script_before_it_are_refused_with_the_order(desk: Desk) -> None:
    desk.script("")
    result = desk.submit("--lr", "0.1", "train.py")
    assert (result.code, "options of the script go after the script" in result.err) == (2, True), result


def notebook(*cells: str, **metadata: object) -> str:
    code: list[dict[str, object]] = [
        {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None} for text in cells
    ]
    return json.dumps({"cells": code, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4})


def run_notebook(desk: Desk, name: str, *arguments: str) -> Result:
    python = interpreter(ROOT, "notebooks", "nbclient==0.11.0", "ipykernel==7.4.0")
    return desk.submit("--scalars", "--python", str(python.parent.parent), name, *arguments)


def test_notebook_is_executed_and_its_copy_kept(desk: Desk) -> None:
    first = (
        "import sys, os, holdfast; print('first', sys.argv, os.path.basename(os.getcwd())); holdfast.log('loss', 0.25)"
    )
    spec = {"name": "someone-elses", "display_name": "Theirs", "language": "python"}
    desk.script(notebook(first, "1 + 1", kernelspec=spec), "notes/a.ipynb")
    result = run_notebook(desk, "notes/a.ipynb", "--lr", "0.1")
    assert result.code == 0, result
    assert "first ['notes/a.ipynb', '--lr', '0.1'] notes\n2\n" in result.text
    assert desk.record()["loss"] == 0.25
    copy = json.loads((desk.attempt() / "outputs" / "a.ipynb").read_text())
    assert [cell["execution_count"] for cell in copy["cells"]] == [1, 2]
    assert copy["cells"][1]["outputs"][0]["data"]["text/plain"] in ("2", ["2"])
    assert "outputs" not in (desk.project / "notes" / "a.ipynb").read_text().replace('"outputs": []', "")


def test_failing_cell_fails_the_run_with_its_traceback(desk: Desk) -> None:
    desk.script(notebook("print('acc: 0.5')", "import no_such_module", "print('never')"), "a.ipynb")
    result = run_notebook(desk, "a.ipynb")
    assert result.code == 1
    assert "\nModuleNotFoundError: No module named 'no_such_module'\na.ipynb: cell 2 failed\n" in result.text
    assert "never" not in result.text
    assert "the module no_such_module is not installed in" in result.err
    assert desk.record()["acc"] == 0.5
    copy = json.loads((desk.attempt() / "outputs" / "a.ipynb").read_text())
    assert copy["cells"][1]["outputs"][0]["ename"] == "ModuleNotFoundError"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (
            notebook(kernelspec={"name": "julia-1.11", "language": "julia"}),
            "a.ipynb needs the Jupyter kernel 'julia-1.11'",
        ),
        (notebook(kernelspec=[]), "a.ipynb is not a valid notebook"),
        ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}', "a.ipynb is not a valid notebook"),
    ],
)
def test_notebook_that_cannot_be_executed_is_one_line(desk: Desk, text: str, answer: str) -> None:
    desk.script(text, "a.ipynb")
    result = run_notebook(desk, "a.ipynb")
    assert result.code == 1
    assert answer in result.text
    assert "Traceback" not in result.text


def test_notebook_without_its_packages_names_the_command_that_adds_them(desk: Desk, active: Path) -> None:
    desk.script(notebook("print(1)"), "a.ipynb")
    result = desk.submit("--python", str(active), "a.ipynb")
    assert result.code == 1
    assert "notebooks need nbclient and ipykernel in the environment of the run" in result.text
    assert f"uv pip install --python {active}/bin/python nbclient ipykernel\n" in result.err


def test_name_and_tags_of_a_submit_are_shown_searched_and_changed(desk: Desk) -> None:
    desk.script("print('hello')\n")
    assert desk.submit("--name", "first try", "--tag", "dataset=v3", "--tag", "kept", "train.py").code == 0
    assert desk.submit("train.py").code == 0
    record = desk.record("first try")
    assert (record["run_number"], record["name"]) == (1, "first try")
    assert record["tags"] == {"dataset": "v3", "kept": True}
    for condition in ("name = 'first try'", "tags.dataset = 'v3'"):
        [row] = desk.holdfast("runs", "--where", condition, "-o", "json").json
        assert row["run_number"] == 1
    card = desk.holdfast("info", "first try", "-o", "table").text
    assert re.search(r"^started    \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$", card, re.M), card
    assert re.search(r"^duration   [\d.]+ s$", card, re.M), card
    assert not re.search(r"^program", card, re.M), card
    assert "name       first try\n" in card
    assert desk.holdfast("tag", "-r", "first try", "--remove", "kept").code == 0
    assert desk.record("1")["tags"] == {"dataset": "v3"}
    assert desk.holdfast("store", "verify").code == 0
    assert desk.submit("--name", "first try", "train.py").code == 0
    result = desk.holdfast("info", "first try")
    assert (result.code, "name one by its number: 1, 3" in result.err) == (2, True), result
    for name in ("", "12", "last", " x", "a\nb"):
        assert desk.submit(f"--name={name}", "train.py").code == 2, name


def test_table_of_runs_shows_names_and_tags_where_there_are_any(desk: Desk) -> None:
    desk.script("print('hello')\n")
    assert desk.submit("train.py").code == 0
    assert "name" not in at_terminal(desk, 120, "runs", NO_COLOR="1")[0]
    assert desk.submit("--name", "first", "--tag", "dataset=v3", "train.py").code == 0
    title, row, _ = at_terminal(desk, 120, "runs", NO_COLOR="1")
    assert title.split() == ["run", "name", "age", "duration", "status", "target", "script", "tags.dataset"]
    assert (row.split()[:2], row.split()[-1]) == (["2", "first"], "v3")
