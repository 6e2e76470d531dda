"""The original's Python API in real processes, from the very files that travel to a target."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.engine.connection import bundle
from holdfast.metrics import reader as metrics
from lab.pythons import NEWEST, OLDEST, find_python


class Place(NamedTuple):
    """A run's folders, and the interpreter its scripts are run by."""

    python: str
    site: Path
    metrics: Path
    outputs: Path
    cwd: Path

    def run(self, code: str, *later: Path, in_run: bool = True) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, (self.site, *later)))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "LC_ALL": "C"}
        if in_run:
            environment["HOLDFAST_METRICS_DIR"] = str(self.metrics)
            environment["HOLDFAST_OUTPUTS"] = str(self.outputs)
            environment["HOLDFAST_RUN_ID"] = "demo_1504832281116"
        command = [self.python, "-W", "error", "-c", code]
        return subprocess.run(
            command, cwd=self.cwd, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def say(self, code: str, *later: Path, in_run: bool = True) -> str:
        """What a script prints that must end well and complain of nothing."""
        result = self.run(code, *later, in_run=in_run)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    def logged(self) -> dict[str, list[object]]:
        found = metrics.read_dir(str(self.metrics))
        assert found.problems == ()
        return {name: list(series.values) for name, series in found.by_name.items()}

    def kept(self) -> dict[str, bytes]:
        files = [path for path in self.outputs.rglob("*") if path.is_file()]
        return {path.relative_to(self.outputs).as_posix(): path.read_bytes() for path in files}


def interpreters() -> list[str]:
    """This Python, and the oldest and newest supported ones where they are installed."""
    return [sys.executable, *filter(None, map(find_python, (OLDEST, NEWEST)))]


@pytest.fixture(params=interpreters())
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return make_place(str(request.param), tmp_path)


def make_place(python: str, tmp_path: Path) -> Place:
    with zipfile.ZipFile(io.BytesIO(bundle.to_zip())) as parcel:
        parcel.extractall(tmp_path / "parcel")
    place = Place(
        python, tmp_path / "parcel" / "site", tmp_path / "metrics", tmp_path / "work é" / "outputs", tmp_path / "work é"
    )
    place.metrics.mkdir()
    place.outputs.mkdir(parents=True)
    return place


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_logger_takes_every_kind_of_value(place: Place) -> None:
    code = """
import datetime
from azureml.logging import get_azureml_logger
run_logger = get_azureml_logger()
values = [1, 0.5, True, "true", [0.1, 0.2], ["a", "b"], {"a": [1]}, None, datetime.datetime(2018, 3, 1, 12, 30)]
for number, value in enumerate(values):
    request = run_logger.log("value %d" % number, value)
    request.wait()
for epoch in range(3):
    run_logger.log("test_accuracy: v1.0", epoch / 2)
print(type(request).__name__)
"""
    assert place.say(code) == "ScriptRunRequest\n"
    logged = place.logged()
    assert logged.pop("test_accuracy: v1.0") == [0.0, 0.5, 1.0]
    assert logged.pop("value 4") == [0.1, 0.2]  # a value per step
    expected = [1, 0.5, True, "true", ["a", "b"], {"a": [1]}, None, "2018-03-01T12:30:00"]
    assert list(logged) == [f"value {number}" for number in range(9) if number != 4]
    assert [value for (value,) in logged.values()] == expected
    assert type(logged["value 2"][0]) is bool


def test_numpy_values_are_logged_as_numbers(tmp_path: Path) -> None:
    place = make_place(sys.executable, tmp_path)
    code = """
import numpy as np
from azureml.logging import get_azureml_logger
log = get_azureml_logger().log
log("float32", np.float32(0.5)); log("float64", np.float64(0.1)); log("int64", np.int64(7)); log("bool", np.bool_(True))
log("array", np.array([0.25, 0.5], dtype="float32")); log("matrix", np.eye(2)); log("inside", {"a": [np.int32(1)]})
"""
    place.say(code)
    assert place.logged() == {
        "float32": [0.5],
        "float64": [0.1],
        "int64": [7],
        "bool": [True],
        "array": [0.25, 0.5],
        "matrix": [[[1.0, 0.0], [0.0, 1.0]]],
        "inside": [{"a": [1]}],
    }


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("summary.txt", "summary.txt"),
        ("outputs/summary.txt", "summary.txt"),
        ("./outputs/a/../b/é.txt", "b/é.txt"),
        (r"outputs\tables\one.csv", "tables/one.csv"),
        ("../../escaped", "escaped"),
        ("outputs/../../escaped", "escaped"),
        (r"..\..\escaped", "escaped"),
        ("/etc/escaped", "etc/escaped"),
        ("//etc/escaped", "etc/escaped"),
        ("outputs/outputs/x", "outputs/x"),
    ],
)
def test_an_uploaded_text_lands_below_outputs(asked: str, found: str, tmp_path: Path) -> None:
    place = make_place(sys.executable, tmp_path)
    before = set(tmp_path.rglob("*"))
    code = f"from azureml.logging import get_azureml_logger as g; g().upload({asked!a}, 'h\\xe9').wait()"
    place.say(code)
    assert place.kept() == {found: "hé".encode()}
    made = {path for path in set(tmp_path.rglob("*")) - before if "__pycache__" not in path.parts}
    assert all(place.outputs in path.parents for path in made)


def test_a_text_is_uploaded_over_itself_and_under_any_name_on_any_python(place: Place) -> None:
    code = """
from azureml.logging import get_azureml_logger
logger = get_azureml_logger()
logger.upload("caf\\xe9 \\u65e5.txt", "first")
logger.upload("caf\\xe9 \\u65e5.txt", b"\\xff second")
"""
    place.say(code)
    assert place.kept() == {"café 日.txt": b"\xff second"}


@pytest.mark.parametrize("name", ["", "..", "folder", "file/below", "nul\0", "x" * 300])
def test_an_upload_that_cannot_be_kept_is_told_and_not_raised(name: str, tmp_path: Path) -> None:
    place = make_place(sys.executable, tmp_path)
    (place.outputs / "folder").mkdir()
    (place.outputs / "file").touch()
    code = f"from azureml.logging import get_azureml_logger as g; g().upload({name!r}, 'x').wait(); print('goes on')"
    result = place.run(code)
    assert (result.returncode, result.stdout) == (0, "goes on\n")
    assert result.stderr.startswith(f"holdfast: cannot store {name!r}: ")


def test_the_elder_names_give_the_same_logger(place: Place) -> None:
    code = """
from azureml.sdk import data_collector
import azureml_sdk.data_collector
data_collector.current_run().log("a", 1)
azureml_sdk.data_collector.current_run().log("b", 2).wait()
from azureml_sdk import data_collector as elder
assert elder.current_run is data_collector.current_run
"""
    place.say(code)
    assert place.logged() == {"a": [1], "b": [2]}


def test_the_run_of_the_successor_logs_values_rows_and_tables(place: Place) -> None:
    code = """
from azureml.core import Run
from azureml.core.run import Run as same
assert Run is same
run = Run.get_context(allow_offline=False)
run.log("loss", 0.5, step=10)
run.log("loss", 0.25, "by hand", 20)
run.log_list("losses", [0.5, 0.25], description="both")
for x in range(2):
    run.log_row("sine", x=x, y=x / 2)
run.log_table("table", {"a": [1, 2]})
run.tag("phase", "warm")
Run.get_submitted_run().log("other", 1)
run.flush()
run.complete()
print(run.id)
"""
    assert place.say(code) == "demo_1504832281116\n"
    assert place.logged() == {
        "loss": [0.5, 0.25],
        "losses": [0.5, 0.25],
        "sine": [{"x": 0, "y": 0.0}, {"x": 1, "y": 0.5}],
        "table": [{"a": [1, 2]}],
        "tag.phase": ["warm"],
        "other": [1],
    }
    assert list(metrics.read_dir(str(place.metrics)).by_name["loss"].steps) == [10, 20]


def test_images_are_kept_under_names_of_their_own(place: Place) -> None:
    code = """
from azureml.core import Run
class Figure:
    def __init__(self, content):
        self.content = content
    def savefig(self, target, format):
        target.write(format.encode() + self.content)
run = Run.get_context()
run.log_image("loss: epoch 1.5", plot=Figure(b"one"))
run.log_image("loss: epoch 1.5", plot=Figure(b"two"))
run.log_image("../photo.jpg", path="photo.jpg")
run.log_image("caf\\xe9", path="photo.jpg")
run.log_image("here", "outputs/here.png")
"""
    write(place.cwd, {"photo.jpg": "jpg", "outputs/here.png": "here"})
    place.say(code)
    assert place.kept() == {
        "loss: epoch 1.5.png": b"pngone",
        "loss: epoch 1.5-1.png": b"pngtwo",
        "photo.jpg": b"jpg",
        "café.jpg": b"jpg",
        "here.png": b"here",
    }
    assert place.logged() == {
        "loss: epoch 1.5": ["outputs/loss: epoch 1.5.png", "outputs/loss: epoch 1.5-1.png"],
        "../photo.jpg": ["outputs/photo.jpg"],
        "café": ["outputs/café.jpg"],
        "here": ["outputs/here.png"],
    }


def test_an_image_that_cannot_be_made_is_told_and_not_raised(place: Place) -> None:
    code = """
from azureml.core import Run
class Figure:
    def savefig(self, target, format):
        target.write(b"half")
        raise RuntimeError("no fonts")
run = Run.get_context()
run.log_image("broken", plot=Figure())
run.log_image("missing", path="no such file")
run.log_image("neither")
"""
    result = place.run(code)
    assert result.returncode == 0
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [
        " cannot store 'broken'",
        " cannot store 'missing'",
        " cannot store 'neither'",
    ]
    assert place.kept() == {}
    assert place.logged() == {}


def test_files_are_uploaded_from_paths_and_streams(place: Place) -> None:
    code = """
import io
from azureml.core import Run
run = Run.get_context()
run.upload_file("models/model.bin", "model.bin")
run.upload_file(name="outputs/stream.bin", path_or_stream=io.BytesIO(b"stream"))
run.upload_file("outputs/here.bin", "outputs/here.bin")
try:
    run.upload_file("none", "no such file")
except FileNotFoundError as problem:
    print(problem.filename)
"""
    write(place.cwd, {"model.bin": "model", "outputs/here.bin": "here"})
    assert "no such file" in place.say(code)
    assert place.kept() == {"models/model.bin": b"model", "stream.bin": b"stream", "here.bin": b"here"}


def test_outside_a_run_nothing_happens(place: Place) -> None:
    code = """
from azureml.logging import get_azureml_logger
from azureml.core import Run
import azureml_sdk.data_collector as collector
logger, run = get_azureml_logger(), Run.get_context()
logger.log("a", 1).wait()
logger.upload("x.txt", "text").wait()
collector.current_run().log("b", [1])
run.log("c", 1)
run.log_image("d", plot=object())
run.upload_file("e", "no such file")
run.tag("f", "g")
assert isinstance(run.id, str)
try:
    Run.get_context(allow_offline=False)
except RuntimeError:
    print("refused")
"""
    place.outputs.rmdir()
    assert place.say(code, in_run=False) == "refused\n"
    assert list(place.cwd.iterdir()) == []
    assert place.logged() == {}


GET_LOCAL_PATH = """
import os
from azureml.assets import get_local_path
print(os.fsencode(get_local_path("assets/m.link")))
"""


@pytest.mark.parametrize("beside", ["m", "modèle.pkl"])
def test_a_link_stands_for_the_file_next_to_it(beside: str, place: Place) -> None:
    link = {"assetSource": "azureml", "name": "../../modèle.pkl", "version": "3"}
    folder = write(place.cwd / "assets", {"m.link": json.dumps(link), beside: "x"})
    assert place.say(GET_LOCAL_PATH) == f"{os.fsencode(folder / beside)!r}\n"


def test_a_link_whose_file_is_not_there_says_what_to_do(place: Place) -> None:
    link = {"assetSource": "azureml", "name": "model.pkl", "version": "3"}
    write(place.cwd / "assets", {"m.link": json.dumps(link)})
    result = place.run(GET_LOCAL_PATH)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("FileNotFoundError: 'assets/m.link' stands for the asset 'model.pkl', version '3'")
    assert "assets/model.pkl" in last


@pytest.mark.parametrize("content", ["", "no json", "[]", "{}", '{"name": 3}', '{"name": "a/"}', "\udcff"])
def test_a_link_that_is_none_says_so(content: str, tmp_path: Path) -> None:
    place = make_place(sys.executable, tmp_path)
    (place.cwd / "assets").mkdir()
    (place.cwd / "assets" / "m.link").write_bytes(os.fsencode(content))
    last = place.run(GET_LOCAL_PATH).stderr.splitlines()[-1]
    assert last.startswith("ValueError: 'assets/m.link' is not the link of an asset")


STYLES = {
    "classic": {"azureml/__init__.py": "installed = True\n"},
    "pkgutil": {"azureml/__init__.py": "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"},
    "namespace": {},
}


@pytest.mark.parametrize("style", STYLES)
def test_an_installed_azureml_wins_where_it_has_the_name(style: str, place: Place, tmp_path: Path) -> None:
    installed = write(
        tmp_path / "installed",
        {**STYLES[style], "azureml/core/__init__.py": "Run = 'the real one'\n", "azureml/more.py": ""},
    )
    code = """
import azureml.core, azureml.more, azureml
from azureml.logging import get_azureml_logger
get_azureml_logger().log("a", 1)
print(azureml.core.Run, getattr(azureml, "installed", None))
"""
    expected = f"the real one {True if style == 'classic' else None}\n"
    assert place.say(code, installed) == expected
    assert place.logged() == {"a": [1]}


@pytest.mark.parametrize("style", STYLES)
def test_an_installed_logger_is_used_by_our_elder_names(style: str, place: Place, tmp_path: Path) -> None:
    files = {**STYLES[style], "azureml/logging.py": "def get_azureml_logger():\n    return 'the real one'\n"}
    installed = write(tmp_path / "installed", files)
    code = """
import azureml.sdk.data_collector, azureml_sdk.data_collector
from azureml.core import Run
Run.get_context().log("a", 1)
print(azureml.sdk.data_collector.current_run(), azureml_sdk.data_collector.current_run())
"""
    assert place.say(code, installed) == "the real one the real one\n"
    assert place.logged() == {"a": [1]}


def test_all_folders_of_an_installed_azureml_come_before_ours(place: Place, tmp_path: Path) -> None:
    core = write(tmp_path / "1", {**STYLES["pkgutil"], "azureml/core.py": "Run = 'real'\n"})
    rest = write(tmp_path / "2", {**STYLES["pkgutil"], "azureml/logging.py": "get_azureml_logger = 'real too'\n"})
    code = """
import azureml.core, azureml.logging, azureml.assets
print(azureml.core.Run, azureml.logging.get_azureml_logger, azureml.__file__)
"""
    assert place.say(code, core, rest) == f"real real too {core / 'azureml' / '__init__.py'}\n"


def test_an_installed_azureml_may_import_from_us_while_it_is_imported(place: Place, tmp_path: Path) -> None:
    start = "from azureml.logging import get_azureml_logger\nget_azureml_logger().log('a', 1)\n"
    place.say("import azureml", write(tmp_path / "installed", {"azureml/__init__.py": start}))
    assert place.logged() == {"a": [1]}


def test_an_installed_azureml_that_is_broken_says_so_itself(place: Place, tmp_path: Path) -> None:
    installed = write(tmp_path / "installed", {"azureml/__init__.py": "import no_such_thing\n"})
    code = """
import sys
for _ in range(2):
    try:
        import azureml.logging
    except ImportError as problem:
        print(problem.name, "azureml" in sys.modules)
"""
    assert place.say(code, installed) == "no_such_thing False\n" * 2


def test_an_installed_azureml_sdk_wins_where_it_has_the_name(place: Place, tmp_path: Path) -> None:
    installed = write(tmp_path / "installed", {"azureml_sdk/__init__.py": "mark = 1\n", "azureml_sdk/other.py": ""})
    code = """
import azureml_sdk.other
from azureml_sdk import data_collector, mark
data_collector.current_run().log("a", mark)
"""
    place.say(code, installed)
    assert place.logged() == {"a": [1]}


def test_the_site_of_another_version_is_not_taken_for_an_installed_azureml(place: Place, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle.to_zip())) as parcel:
        parcel.extractall(tmp_path / "other")
    code = "import azureml, azureml_sdk; from azureml.logging import RunLogger; print(len(azureml.__path__))"
    assert place.say(code, tmp_path / "other" / "site", place.site) == "1\n"
