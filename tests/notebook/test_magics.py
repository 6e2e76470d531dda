"""``%load_ext holdfast`` in a notebook with the kernel of Jupyter itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from conftest import Desk
from notebook.conftest import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from notebook.conftest import Notebook

SETUP = """
import math, sqlite3, numpy as np
import helper
x, lr, array = 4, 0.5, np.arange(3)
connection = sqlite3.connect(":memory:")
def double(value):
    return 2 * value
import holdfast
@holdfast.remote(target="local")
def triple(value):
    return 3 * value
@holdfast.remote(target="local")
def around(value):
    return triple(value) + sum(triple.map([value]))
"""
CELL = """%%submit -c local --send x,array --get y,twice,nested
import os
print("in run", "HOLDFAST_RUN_ID" in os.environ, math.sqrt(x))
y = double(x) + helper.ONE
twice = array * 2
nested = {"pair": (1, None)}
y + 1
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("magics"))


@pytest.fixture(scope="module")
def study(desk: Desk, jupyter: Path) -> Iterator[Notebook]:
    """A notebook with the extension, and variables."""
    desk.script("ONE = 1", "helper.py")
    folder = desk.home.parent / "jupyter" / "kernels" / "here"
    folder.mkdir(parents=True)
    argv = [str(jupyter), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "here", "language": "python"}))
    with notebook(desk, jupyter, "here") as made:
        assert made.run("%load_ext holdfast")["status"] == "ok"
        assert made.run(SETUP)["status"] == "ok"
        yield made


def test_cell_runs_on_the_target_with_its_imports_and_variables_and_results_return(desk: Desk, study: Notebook) -> None:
    shown = study.run(CELL)
    assert (shown["status"], shown["text"], shown["value"]) == ("ok", "in run True 2.0\n", "10"), shown
    assert study.run("y, twice, nested")["value"] == "(9, array([0, 2, 4]), {'pair': (1, None)})"
    assert desk.record()["status"] == "Completed"
    shown = study.run("%%submit --no-wait\n1")
    assert "<Run 2 " in shown["value"]
    assert study.run("_.result()['last']")["value"] == "{'value': 1}"
    shown = study.run("%%submit\nobject()")  # no form for it: its text is shown, and nothing is unpickled
    assert (shown["value"], "<object object at" in shown["text"]) == (None, True)
    assert study.run("%%submit --help\n1")["text"].startswith("usage: %%submit")
    shown = study.run("%%submit\n2;\n")  # as in IPython
    assert (shown["status"], shown["value"]) == ("ok", None), shown


def test_remote_functions_of_the_notebook_run_in_place_inside_each_other_and_in_cells(study: Notebook) -> None:
    assert study.run("around(1)")["value"] == "6"
    assert study.run("%%submit\naround(2) + triple(1)")["value"] == "15"
    assert study.run("functions = [triple]")["status"] == "ok"
    assert study.run("%%submit --send functions\nfunctions[0](1)")["value"] == "3"


def test_output_and_errors_of_a_cell_cannot_act_on_the_terminal(study: Notebook) -> None:
    shown = study.run("%%submit\nprint('a\\x1b]0;title\\x07b\\x1b[31mred')\nraise ValueError('\\x1b[2Jx')")
    assert shown["status"] == "error"
    assert "ab\x1b[31mred\n" in shown["text"]
    assert "\x1b]0" not in shown["text"]
    assert "\x1b[2J" not in shown["text"]
    assert shown["traceback"].endswith(" on local: ValueError: \\x1b[2Jx"), shown
    assert shown["traceback"].startswith("RemoteError: run ")
    attempt = "try:\n    get_ipython().run_cell_magic('submit', '', '1 / 0')\n"
    caught = study.run(attempt + "except holdfast.errors.RemoteError as error:\n    kind = error.type_name")
    assert (caught["status"], study.run("kind")["value"]) == ("ok", "'ZeroDivisionError'"), caught


@pytest.mark.parametrize("result", [{"variables": {"y": 1, "x": 9, "open": 0}, "last": {}}, {"variables": {}}, 5, []])
def test_result_of_a_cell_replaces_no_variable_that_was_not_asked_for(study: Notebook, result: object) -> None:
    """The cell writes what it likes as its result when it ends, as a hostile target can."""
    document = json.dumps({"v": 1, "value": result})
    shown = study.run(f"""%%submit --get y
import atexit, os
def write():
    open(os.path.join(os.environ["HOLDFAST_OUTPUTS"], "holdfast-result", "result.json"), "w").write({document!r})
atexit.register(write)
y = 1
""")
    assert shown["status"] == "error", shown
    assert "the target sent a malformed result" in shown["traceback"], shown
    assert study.run("x, open.__name__")["value"] == "(4, 'open')"


def test_bad_cells_are_refused_with_what_to_do(desk: Desk, study: Notebook) -> None:
    before = len(desk.holdfast("history", "list", "-o", "json").json)
    refusals = {
        "%%submit --send x\nx * lr": ("not sent: lr", "try: %%submit --send x,lr"),
        "%%submit\nx = [x for x in [x]] and x + 1": ("not sent: x", "try: %%submit --send x"),
        "%%submit --send nothing\n1": ("the notebook has no variable nothing",),
        "%%submit --send connection\n1": ("connection (sqlite3.Connection) cannot be sent",),
        "%%submit\n!ls": ("a magic or a ! command",),
        "%%submit\nfor": ("it is not plain Python", "line 1"),
        "%%submit\nimport asyncio\nawait asyncio.sleep(0)": ("line 2", "try: await, yield and return"),
        "%%submit --bogus\n1": ("unrecognized arguments: --bogus", "usage:"),
        "%%submit --get missing\n1": ("the cell sets no variable missing",),
        "%%submit -c missing\n1": ("missing",),
        "%%submit -e NOT_SET\n1": ("NOT_SET is not set in this process",),
        "%submit -c local": ("%submit has no cell to run",),
    }
    for cell, texts in refusals.items():
        shown = study.run(cell)
        assert shown["status"] == "error", cell
        assert all(text in shown["traceback"] for text in texts), (cell, shown)
    assert len(desk.holdfast("history", "list", "-o", "json").json) == before
    for cell, text in (
        ("%%submit --get missing\nexec('1')", "NameError: the cell has no variable missing, which --get names"),
        ("%%submit --get thing\nthing = object()", "or write it to a file in holdfast.outputs()\n"),
        ("%%submit --send x\nx.missing", "'int' object has no attribute 'missing'"),
    ):
        shown = study.run(cell)
        assert (shown["status"], text in shown["text"]) == ("error", True), shown


def test_runs_are_shown_as_a_table_and_cells_recorded_here(desk: Desk, study: Notebook) -> None:
    assert study.run("%azureml history on")["text"] == "History logging enabled\n"
    assert study.run("import holdfast\nholdfast.log('<b>', 0.25)")["status"] == "ok"
    assert study.run("%azureml history off")["status"] == "ok"
    shown = study.run("%runs script_name = 'notebook'")
    assert "<th>&lt;b&gt;</th>" in shown["html"]
    assert shown["value"].splitlines()[-1].split()[-1] == "0.25"
    assert "<th>&lt;b&gt;</th>" in study.run("holdfast.runs()")["html"]
    assert "--send NAMES" in study.run("%submit --help")["text"]
    assert study.run("%runs status = 'Lost'")["value"] == "no runs"
    assert study.run("%runs status")["status"] == "error"
    record = desk.record()
    assert (record["script_name"], record["<b>"], record["parent_run_id"]) == ("notebook", 0.25, None)
