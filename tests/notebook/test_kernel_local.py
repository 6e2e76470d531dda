"""Kernels on this machine: errors, records of cells, idle time, and the kernelspecs themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from conftest import eventually
from notebook.conftest import install_kernel, notebook

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

LOG = """
import holdfast
holdfast.log("accuracy", 0.5)
print("hello")
open("outputs/notes.txt", "w").write("kept")
%azureml upload outputs/notes.txt
"""
DAMAGE = """
import os
from ipykernel.connect import get_connection_file
cells = os.path.join(os.path.dirname(get_connection_file()), "cells")
made = ("00-cut.json", "01-list.json", "02-deep.json", "03-huge.json", "04-fifo.json")
texts = ("{", "[]", "[" * 100_000)
for name, text in zip(made, texts):
    open(os.path.join(cells, name), "w").write(text)
os.truncate(os.open(os.path.join(cells, made[3]), os.O_CREAT | os.O_RDWR), 100 << 20)
os.mkfifo(os.path.join(cells, made[4]))
"""


def test_each_cell_is_a_record_while_history_is_on(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local", "--python", str(jupyter))
    with notebook(desk, jupyter, name, JPY_SESSION_NAME="/somewhere/study.ipynb") as study:
        texts = [study.run(f"%azureml history {word}")["text"] for word in ("show", "on", "show")]
        assert texts == ["History logging is disabled\n", "History logging enabled\n", "History logging is enabled\n"]
        _interrupt(f"kernel run -c local -p {desk.project}")
        shown = study.run(LOG)
        assert (shown["status"], shown["text"]) == ("ok", "hello\n")
        assert study.run("1 / 0")["status"] == "error"
        assert study.run("%azureml history off")["text"] == "History logging disabled\n"
        assert study.run("holdfast.log('after', 1)")["status"] == "ok"
        assert "is not a file below outputs/" in str(study.run("%upload_artifact ../x")["error"])
        assert study.ask("shutdown") == {"is_alive": False}
    desk.wait_for_end("1")
    cells = [run for run in desk.holdfast("history", "list", "-o", "json").json if run["script_name"] == "study.ipynb"]
    shown, failed = (
        {**desk.record(str(run["run_number"]))} for run in sorted(cells, key=lambda r: r["run_number"])[1:]
    )
    kernel = desk.record("1")
    assert (shown["status"], shown["accuracy"], shown["parent_run_id"]) == ("Completed", 0.5, kernel["run_id"])
    assert shown["attachments"] == "driver_log, outputs/cell.py, outputs/notes.txt"
    assert desk.holdfast("logs", "-r", shown["run_id"]).text == "hello\n"
    assert (failed["status"], failed["reason"]) == ("Failed", "ZeroDivisionError: division by zero")
    assert (kernel["after"], "accuracy" in kernel) == (1, False)
    assert desk.holdfast("store", "verify").code == 0


def test_missing_ipykernel_is_an_error_in_the_notebook_that_names_the_command(desk: Desk, jupyter: Path) -> None:
    bare = desk.home.parent / "bare"
    subprocess.run([jupyter, "-m", "venv", "--without-pip", bare], check=True)
    name = install_kernel(desk, jupyter, "-c", "local", "--python", str(bare / "bin" / "python"))
    with notebook(desk, jupyter, name) as study:
        shown = study.run("1 + 1")
        assert shown["status"] == "error"
        assert "the module ipykernel is not installed" in shown["error"]
        assert f"uv pip install --python {bare}/bin/python nbclient ipykernel" in shown["error"]
        assert desk.wait_for_end()["status"] == "Failed"


def test_kernel_whose_target_is_gone_says_so_in_the_notebook(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local")
    path = desk.home.parent / "jupyter" / "kernels" / name / "kernel.json"
    path.write_text(path.read_text().replace('"local"', '"gone"'))
    with notebook(desk, jupyter, name) as study:
        assert "gone" in study.run("1")["error"]


def test_kernel_that_asks_for_a_missing_gpu_is_refused_in_the_notebook(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local", "--gpus", "64", "--python", str(jupyter))
    with notebook(desk, jupyter, name, PATH="/usr/bin:/bin") as study:
        assert "the target does not have the requested GPUs" in study.run("1")["error"]


def test_idle_kernel_ends_and_the_notebook_learns_it(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local", "--idle-time", "15s", "--python", str(jupyter))
    with notebook(desk, jupyter, name) as study:
        assert study.run("import time; time.sleep(16)")["status"] == "ok"  # a cell that runs is not idle
        eventually(lambda: not study.ask("is_alive")["is_alive"])
        assert study.ask("restart") == {"is_alive": True}  # as Jupyter's server does it
        assert "no cell was executed for 15 s" in study.run("1")["error"]
        assert desk.wait_for_end()["status"] == "Completed"


def test_canceled_run_ends_the_kernel_and_a_second_restart_begins_a_new_one(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local", "--python", str(jupyter))
    with notebook(desk, jupyter, name) as study:
        assert study.run("1 + 1")["value"] == "2"
        assert desk.holdfast("cancel").code == 0
        eventually(lambda: not study.ask("is_alive")["is_alive"])
        assert study.ask("restart") == {"is_alive": True}
        assert "the run of the kernel ended as Canceled" in study.run("1 + 1")["error"]
        assert len(desk.holdfast("history", "list", "-o", "json").json) == 1
        assert study.ask("restart") == {"is_alive": True}
        assert study.run("1 + 1")["value"] == "2"
        assert len(desk.holdfast("history", "list", "-o", "json").json) == 2


def test_kernel_outlives_cells_that_damage_its_records(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local", "--python", str(jupyter))
    with notebook(desk, jupyter, name) as study:
        assert study.run("%azureml history on")["status"] == "ok"
        assert study.run(DAMAGE)["status"] == "ok"
        look = "cells, sorted(name for name in os.listdir(cells) if name in made)"
        eventually(lambda: study.run(look)["value"].endswith("[])"))
        assert study.run("import shutil; shutil.rmtree(cells)")["status"] == "ok"
        assert study.run("1 + 1")["value"] == "2"
        assert study.ask("shutdown") == {"is_alive": False}
    assert desk.wait_for_end("1")["status"] == "Completed"


def test_killed_kernel_is_told_to_the_notebook_and_a_restart_begins_a_new_one(desk: Desk, jupyter: Path) -> None:
    name = install_kernel(desk, jupyter, "-c", "local", "--python", str(jupyter))
    with notebook(desk, jupyter, name) as study:
        shown = study.run("for _ in range(300): print('x' * 100_000)")  # 30 MB, more than the tunnel keeps
        assert (shown["status"], len(shown["text"])) == ("ok", 300 * 100_001)
        study.run("import os, signal, threading; threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()")
        eventually(lambda: not study.ask("is_alive")["is_alive"])
        assert study.ask("restart") == {"is_alive": True}
        assert "the kernel ended with exit code 137" in study.run("1 + 1")["error"]
        assert desk.wait_for_end()["status"] == "Failed"
        assert study.ask("restart") == {"is_alive": True}
        assert study.run("1 + 1")["value"] == "2"


def test_kernels_are_installed_listed_and_removed_per_run_configuration(desk: Desk) -> None:
    env = {"JUPYTER_DATA_DIR": str(desk.home.parent / "jupyter")}
    (desk.project / "aml_config").mkdir()
    for name in ("Fast", "local"):
        (desk.project / "aml_config" / f"{name}.runconfig").write_text("Target: local\nFramework: Python\n")
    result = desk.holdfast("kernel", "install", "--gpus", "1", env=env)
    assert (result.code, result.text.split()) == (0, ["project_fast", "project_local"]), result
    spec = json.loads((desk.home.parent / "jupyter" / "kernels" / "project_fast" / "kernel.json").read_text())
    assert spec["display_name"] == "project Fast"
    assert (spec["interrupt_mode"], spec["language"]) == ("message", "python")
    assert spec["argv"][-4:] == ["--gpus", "1", "-f", "{connection_file}"]
    listed = desk.holdfast("kernel", "list", env=env).json
    assert [(row["name"], row["config"]) for row in listed] == [("project_fast", "Fast"), ("project_local", "local")]
    assert desk.holdfast("kernel", "remove", "project_fast", env=env).code == 0
    assert [row["name"] for row in desk.holdfast("kernel", "list", env=env).json] == ["project_local"]
    result = desk.holdfast("kernel", "remove", "python3", env=env)
    assert (result.code, "kernels of Holdfast: project_local" in result.err) == (2, True)
    assert desk.holdfast("kernel", "install", "--name", "x", env=env).code == 2
    assert desk.holdfast("kernel", "install", "-c", "missing", env=env).code != 0
    for option, value in (("--gpus", "x"), ("--wait-for-gpu", "soon"), ("--env", "bogus"), ("--idle-time", "-5")):
        result = desk.holdfast("kernel", "install", "-c", "local", "--name", "bad", f"{option}={value}", env=env)
        assert (result.code in (2, 65), value in result.err) == (True, True), result
    assert [row["name"] for row in desk.holdfast("kernel", "list", env=env).json] == ["project_local"]


def test_install_leaves_the_kernel_of_another_program_alone(desk: Desk) -> None:
    other = desk.home.parent / "jupyter" / "kernels" / "mine" / "kernel.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"argv": ["python"]}')
    env = {"JUPYTER_DATA_DIR": str(desk.home.parent / "jupyter")}
    result = desk.holdfast("kernel", "install", "-c", "local", "--name", "mine", env=env)
    assert (result.code, "another kernel has the name mine" in result.err) == (2, True)
    assert other.read_text() == '{"argv": ["python"]}'


def test_kernel_run_without_ipykernel_here_reports_its_error_and_ends(desk: Desk) -> None:
    """By the Holdfast of the tests, whose environment has no ipykernel."""
    path = desk.project / "connection.json"
    path.write_text("{}")
    result = desk.holdfast("kernel", "run", "-c", "local", "-f", str(path))
    assert (result.code, "not a connection file of Jupyter" in result.err) == (2, True)


def _interrupt(command: str) -> None:
    """As Ctrl-C in the terminal of Jupyter does, which is not meant for kernels."""
    found = subprocess.run(["pgrep", "-f", command], capture_output=True, check=True)
    for pid in map(int, found.stdout.split()):
        os.kill(pid, signal.SIGINT)
