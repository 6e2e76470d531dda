"""The hook that records what other libraries log: how it is installed, turned off, and how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import libraries
from holdfast.metrics import reader

# A package with the shape of tensorboardX's writer, so that the hook is tested without the real one.
WRITER = """
class EventFileWriter:
    def get_logdir(self): return "logs"
    def add_event(self, event): return "added"
"""
EVENT = """
class Value:
    tag, simple_value = "loss", 0.5
    def WhichOneof(self, _): return "simple_value"
class Summary: value = [Value()]
class Event:
    step, summary = 3, Summary()
    def WhichOneof(self, _): return "summary"
"""
USE = (
    f"{EVENT}\nfrom tensorboardX.event_file_writer import EventFileWriter\nprint(EventFileWriter().add_event(Event()))"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return libraries.make_site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    (folder / "tensorboardX").mkdir(parents=True)
    (folder / "tensorboardX" / "__init__.py").write_text("")
    (folder / "tensorboardX" / "event_file_writer.py").write_text(WRITER)
    return folder


def run(code: str, place: Path, site: Path, *paths: Path, **env: str) -> subprocess.CompletedProcess[str]:
    variables = libraries.run_variables(place, site)
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], *map(str, paths)])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env={"PATH": os.environ["PATH"], **variables, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def logged(place: Path) -> dict[str, list[list[Any]]]:
    series = reader.read_dir(str(place / "metrics")).by_name
    return {name: [list(found.steps), list(found.values)] for name, found in series.items()}


def test_call_of_a_library_is_recorded_and_answers_as_before(tmp_path: Path, site: Path, packages: Path) -> None:
    done = run(USE, tmp_path, site, packages)
    assert (done.stdout, done.stderr) == ("added\n", "")
    assert logged(tmp_path) == {"loss": [[3], [0.5]]}


def test_summary_of_wandb_adds_nothing_to_a_series_of_another_library(
    tmp_path: Path, site: Path, packages: Path
) -> None:
    code = (
        f"{USE}\nfrom _holdfast_capture.wandb_run import _summarize\n_summarize('loss', 5.0)\n_summarize('best', 2.0)"
    )
    assert run(code, tmp_path, site, packages).returncode == 0
    assert logged(tmp_path) == {"loss": [[3], [0.5]], "best": [[0], [2.0]]}


@pytest.mark.parametrize("value", ["0", "no", "OFF", "false"])
def test_environment_variable_turns_the_hook_off(tmp_path: Path, site: Path, packages: Path, value: str) -> None:
    code = f"{USE}\nimport sys; print([name for name in sys.modules if 'capture' in name])"
    done = run(code, tmp_path, site, packages, HOLDFAST_CAPTURE=value)
    assert (done.stdout, done.stderr) == ("added\n[]\n", "")
    assert logged(tmp_path) == {}


def test_script_without_such_a_library_loads_only_the_finder(tmp_path: Path, site: Path) -> None:
    code = (
        "import sys, json, logging; print([n for n in sys.modules if 'holdfast' in n], type(sys.meta_path[0]).__name__)"
    )
    done = run(code, tmp_path, site)
    assert (done.stdout, done.stderr) == ("[] CaptureFinder\n", "")
    assert list((tmp_path / "metrics").iterdir()) == []


def test_sitecustomize_of_the_environment_runs_too(tmp_path: Path, site: Path, packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("marker = 'environment'")
    done = run(f"import sitecustomize; print(sitecustomize.marker)\n{USE}", tmp_path, site, packages)
    assert (done.stdout, done.stderr) == ("environment\nadded\n", "")
    assert "loss" in logged(tmp_path)


def test_library_of_another_shape_is_left_alone_with_one_line(tmp_path: Path, site: Path, packages: Path) -> None:
    (packages / "tensorboardX" / "event_file_writer.py").write_text("class Other: pass")
    done = run("import tensorboardX.event_file_writer as module; print(module.Other)", tmp_path, site, packages)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("holdfast: what tensorboardX.event_file_writer logs is not recorded: ")


def test_failure_while_recording_is_one_line_and_never_the_scripts(tmp_path: Path, site: Path, packages: Path) -> None:
    code = f"{USE}\nValue.simple_value = property(lambda self: 1 / 0)\nw = EventFileWriter()\n"
    done = run(f"{code}print(w.add_event(Event()), w.add_event(Event()))", tmp_path, site, packages)
    assert (done.returncode, done.stdout) == (0, "added\nadded added\n")
    (line,) = done.stderr.splitlines()
    assert line == "holdfast: what tensorboard logs is no longer recorded: division by zero"
    assert logged(tmp_path) == {"loss": [[3], [0.5]]}


def test_exception_of_the_library_reaches_the_script_and_records_nothing(
    tmp_path: Path, site: Path, packages: Path
) -> None:
    (packages / "tensorboardX" / "event_file_writer.py").write_text(WRITER.replace('return "added"', "raise KeyError"))
    done = run(USE, tmp_path, site, packages)
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    assert logged(tmp_path) == {}


def test_forked_children_and_threads_record_into_files_of_their_own(tmp_path: Path, site: Path, packages: Path) -> None:
    code = f"""{USE}
import os, threading
writer = EventFileWriter()
threads = [threading.Thread(target=lambda: [writer.add_event(Event()) for _ in range(50)]) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
if not os.fork():
    writer.add_event(Event()); os._exit(0)
os.wait()
"""
    assert run(code, tmp_path, site, packages).stderr == ""
    assert len(logged(tmp_path)["loss"][1]) == 1 + 200 + 1
    assert len(list((tmp_path / "metrics").glob("*.m"))) == 2


def test_name_that_the_script_logs_with_holdfast_is_not_doubled(tmp_path: Path, site: Path, packages: Path) -> None:
    code = f"import holdfast; holdfast.log('loss', 9.0, 1)\n{USE}"
    assert run(code, tmp_path, site, packages).stderr == ""
    assert logged(tmp_path) == {"loss": [[1], [9.0]]}


def test_parameters_and_tags_of_a_metrics_folder_are_read(tmp_path: Path, site: Path) -> None:
    code = """
from _holdfast_capture.recorder import Recorder
recorder = Recorder("library")
recorder.parameter("lr", 0.1); recorder.parameter("lr", 0.1); recorder.parameter("lr", 0.2)
recorder.parameter("layers", [1, 2]); recorder.parameter("odd", float("inf")); recorder.tag("team", "red")
"""
    assert run(code, tmp_path, site).stderr == ""
    (path,) = (tmp_path / "metrics").glob("*.jsonl")
    assert len(path.read_text().splitlines()) == 5
    with path.open("a") as target:
        target.write('{"tag": "list", "value": [1]}\n{"tag": 3, "value": 1}\n{"tag": "torn", "value": 1')
    found = reader.read_dir(str(tmp_path / "metrics"))
    assert found.parameters == {"lr": 0.2, "layers": "[1, 2]", "odd": "inf"}
    assert (found.tags, found.problems, found.by_name) == ({"team": "red"}, (), {})


MANY = """
import os
from _holdfast_capture import wandb_run
class Run:
    id = "x"
run, values = Run(), {"half": 0.5, "quarter": 0.25, "whole": 3, "true": True}
def writes():
    return int(open("/proc/self/io").read().partition("syscw:")[2].split()[0])
wandb_run._log(None, run, values, 1)
before = writes()
wandb_run._log(None, run, values, 2)
print("writes", writes() - before)
wandb_run._log(None, run, {"half": float("nan"), "quarter": float("inf"), "whole": 2 ** 60, "true": "text"})
"""


def test_values_of_one_call_are_one_write_and_keep_their_types(tmp_path: Path, site: Path) -> None:
    done = run(MANY, tmp_path, site)
    assert (done.stdout, done.stderr) == ("writes 1\n", "")
    found = logged(tmp_path)
    assert {name: steps for name, (steps, _) in found.items()} == {name: [1, 2, 2] for name in found}
    assert (found["whole"][1], found["true"][1]) == ([3, 3, 2**60], [True, True, "text"])
    assert (str(found["half"][1]), str(found["quarter"][1])) == ("[0.5, 0.5, nan]", "[0.25, 0.25, inf]")
    assert {type(value) for value in found["true"][1][:2]} == {bool}


def test_child_of_a_fork_records_in_files_of_its_own(tmp_path: Path, site: Path) -> None:
    code = f"""{MANY}
pid = os.fork()
wandb_run._log(None, run, {{"half": 7.0 if pid else 8.0}})
if pid:
    os.waitpid(pid, 0)
"""
    done = run(code, tmp_path, site)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "metrics").glob("*.m"))) == 2
    assert sorted(value for value in logged(tmp_path)["half"][1] if value > 1) == [7.0, 8.0]


def test_failure_of_the_hook_is_silent_where_the_script_has_no_stderr(
    tmp_path: Path, site: Path, packages: Path
) -> None:
    (packages / "tensorboardX" / "event_file_writer.py").write_text("x = 1\n")
    code = "import sys; sys.stderr = None\nimport tensorboardX.event_file_writer as m; print(m.x)"
    done = run(code, tmp_path, site, packages)
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_values_are_recorded_after_the_script_emptied_its_environment(
    tmp_path: Path, site: Path, packages: Path
) -> None:
    code = USE.replace("print(", "import os; os.environ.clear(); print(")
    done = run(code, tmp_path, site, packages)
    assert (done.stdout, done.stderr) == ("added\n", "")
    assert logged(tmp_path) == {"loss": [[3], [0.5]]}
