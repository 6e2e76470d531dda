"""Logging from a script: every test runs a real process, as the module decides at import whether it is in a run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from holdfast.metrics import reader
from holdfast.metrics.values import Series
from lab.pythons import NEWEST, OLDEST, find_python

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src"
TRACK = SOURCE / "holdfast" / "script_api" / "track.py"
VALUES = SOURCE / "holdfast" / "script_api" / "values.py"
CLIENT_NAMES = SOURCE / "holdfast" / "script_api" / "client_names.py"
PACKAGE = REPOSITORY / "packages" / "holdfast-track"

PREAMBLE = "import math, os, signal, sys, threading\nimport holdfast\n"


def interpreters() -> list[str]:
    """This Python, and the oldest and newest supported ones where they are installed."""
    return [sys.executable, *filter(None, map(find_python, (OLDEST, NEWEST)))]


@pytest.fixture(params=interpreters())
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder a run puts on the script's path: its files, under the names they are imported by."""
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copyfile(TRACK, folder / "holdfast.py")
    shutil.copyfile(VALUES, folder / "_holdfast_values.py")
    shutil.copyfile(CLIENT_NAMES, folder / "_holdfast_client_names.py")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "metrics é"
    path.mkdir()
    return path


def run(
    python: str, path: Path, code: str, folder: Path | None, *options: str, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(path), "LC_ALL": "C", **more}
    if folder:
        environment["HOLDFAST_METRICS_DIR"] = str(folder)
    return subprocess.run(
        [python, *options, "-c", PREAMBLE + code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def logged(python: str, path: Path, code: str, folder: Path) -> dict[str, Series]:
    """What a script that must end well and say nothing has logged."""
    result = run(python, path, code, folder)
    assert (result.returncode, result.stderr) == (0, "")
    found = reader.read_dir(str(folder))
    assert found.problems == ()
    return found.by_name


def test_numbers_come_back_exact_with_their_types(python: str, site: Path, folder: Path) -> None:
    code = """
for value in (0.1, 3, -(2**53), True, 5e-324, -0.0):
    holdfast.log("x", value)
holdfast.log_many({"nan": math.nan, "inf": -math.inf})
"""
    series = logged(python, site, code, folder)
    spelled = [repr(value) for value in series["x"].values]
    assert spelled == ["0.1", "3", "-9007199254740992", "True", "5e-324", "-0.0"]
    assert [str(series[name].values[0]) for name in ("nan", "inf")] == ["nan", "-inf"]


def test_steps_are_given_or_counted_per_name(python: str, site: Path, folder: Path) -> None:
    code = """
class Index:
    def __int__(self):
        return 7
for step in (None, 10, -(2**63), Index(), 2.9, None, "no number"):
    holdfast.log("loss", 0.5, step)
holdfast.log("other", 1)
holdfast.log_many({"loss": 1.5, "other": 2})
holdfast.log("loss", 0.5, 2**70)
"""
    series = logged(python, site, code, folder)
    assert list(series["loss"].steps) == [0, 10, -(2**63), 7, 2, 5, 6, 7, 2**63 - 1]
    assert list(series["other"].steps) == [0, 1]


def test_anything_can_be_logged_and_nothing_raises(python: str, site: Path, folder: Path) -> None:
    code = """
import datetime, decimal, enum
class Level(enum.IntEnum):
    high = 3
class Unspeakable:
    def __repr__(self):
        raise ValueError("no")
class Tensor:
    def tolist(self):
        return [1.5, 2.5]
class Scalar:
    def item(self):
        return 0.25
class Frame:
    def to_dict(self, orient):
        return {"a": [1, 2], "kind": orient}
circle = []
circle.append(circle)
values = dict(
    text="h\\xe9", none=None, list=[1, 2.5, math.nan], tuple=(1, "a"), dict={"a": Scalar(), 2: [True]},
    big=2**60, level=Level.high, bytes=b"ab\\xff", day=datetime.date(2020, 2, 29),
    decimal=decimal.Decimal("1.5"), complex=1j, circle=circle, keys={(1, 2): 3}, kind=dict,
    tensor=Tensor(), scalar=Scalar(), frame=Frame(), unspeakable=Unspeakable(),
)
for name, value in values.items():
    holdfast.log(name, value)
holdfast.log(5, 1.0)
holdfast.log(["no name"], 1.0)
"""
    series = logged(python, site, code, folder)
    assert str(list(series.pop("list").values)) == "[1.0, 2.5, nan]"
    assert list(series.pop("tensor").values) == [1.5, 2.5]
    values = {name: series[name].values[0] for name in series}
    assert "Unspeakable object at" in str(values.pop("unspeakable"))
    assert values == {
        "text": "hé",
        "none": None,
        "tuple": [1, "a"],
        "dict": {"a": 0.25, "2": [True]},
        "big": 2**60,
        "level": 3,
        "bytes": "ab\\xff",
        "day": "2020-02-29",
        "decimal": 1.5,
        "complex": "1j",
        "circle": "[[...]]",
        "keys": "{(1, 2): 3}",
        "kind": "<class 'dict'>",
        "scalar": 0.25,
        "frame": {"a": [1, 2], "kind": "list"},
        "5": 1.0,
        "['no name']": 1.0,
    }


def test_numpy_values_are_logged_as_numbers_and_lists(folder: Path) -> None:
    code = """
import numpy
holdfast.log("scalar", numpy.float32(0.25), step=numpy.int64(9))
holdfast.log_many({"whole": numpy.int16(3), "flag": numpy.bool_(True), "zero_d": numpy.array(4.5)})
holdfast.log("table", numpy.arange(4).reshape(2, 2))
holdfast.log_many({"endless": numpy.longdouble(1.5), "times": [numpy.datetime64("2020-02-29")]})
"""
    series = logged(sys.executable, SOURCE, code, folder)
    assert series["scalar"].steps[0] == 9
    values = [series[name].values[0] for name in ("scalar", "whole", "flag", "zero_d", "table")]
    assert values == [0.25, 3, True, 4.5, [[0, 1], [2, 3]]]
    assert type(values[2]) is bool
    assert "1.5" in str(series["endless"].values[0])
    assert series["times"].values[0] == ["2020-02-29"]


def test_outside_a_run_nothing_happens(python: str, site: Path, tmp_path: Path) -> None:
    code = """
holdfast.log("x", 1.0)
holdfast.log_many({"x": object()})
os.chdir(os.environ["PLACE"])
print(holdfast.active(), holdfast.run_id(), holdfast.outputs())
"""
    place = tmp_path / "place"
    place.mkdir()
    result = run(python, site, code, None, PLACE=str(place))
    assert (result.stdout, result.stderr) == ("False None outputs\n", "")
    assert [path.name for path in place.iterdir()] == ["outputs"]


def test_a_script_can_ask_about_its_run(python: str, site: Path, folder: Path) -> None:
    kept = str(folder / "outputs")
    code = "print(holdfast.active(), holdfast.run_id(), holdfast.outputs() == os.environ['HOLDFAST_OUTPUTS'])"
    result = run(python, site, code, folder, HOLDFAST_RUN_ID="digits_1504832281116", HOLDFAST_OUTPUTS=kept)
    assert result.stdout == "True digits_1504832281116 True\n"
    assert list(folder.glob("*.m")) == []


def test_parent_and_forked_child_write_files_of_their_own(python: str, site: Path, folder: Path) -> None:
    code = """
holdfast.log("x", 1.0)
child = os.fork()
holdfast.log("x", 2.0 if child else 3.0)
if child:
    os.waitpid(child, 0)
"""
    series = logged(python, site, code, folder)
    assert sorted(zip(series["x"].values, series["x"].steps, strict=True)) == [(1.0, 0), (2.0, 1), (3.0, 0)]
    assert len(list(folder.glob("*-0.m"))) == 2


def test_a_process_id_that_comes_again_leaves_the_first_files_alone(python: str, site: Path, folder: Path) -> None:
    code = """
taken = os.path.join(os.environ["HOLDFAST_METRICS_DIR"], "%d-0.jsonl" % os.getpid())
open(taken, "w").close()
holdfast.log("x", 1.0)
"""
    assert list(logged(python, site, code, folder)["x"].values) == [1.0]
    assert [path.stat().st_size for path in folder.glob("*-0.jsonl")] == [0]


def test_script_that_closes_all_descriptors_finds_nothing_in_its_own_files(
    python: str, site: Path, folder: Path
) -> None:
    code = """
holdfast.log("x", 1.0)
os.chdir(os.path.dirname(os.environ["HOLDFAST_METRICS_DIR"]))
os.closerange(3, 4096)
mine = [open("mine-%d" % number, "w+b") for number in range(10)]
for value in (2.0, 3.0, [4.0]):
    holdfast.log("x", value)
print(sum(len(file.read()) for file in mine))
"""
    result = run(python, site, code, folder)
    assert result.stdout == "0\n"
    assert "Bad file descriptor; the script continues" in result.stderr
    assert list(reader.read_dir(str(folder)).by_name["x"].values) == [1.0, 3.0, [4.0]]


def test_threads_log_at_once(python: str, site: Path, folder: Path) -> None:
    code = """
def work(number):
    for value in range(500):
        holdfast.log("shared", float(value))
        holdfast.log("of-%d" % number, [value])
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    series = logged(python, site, code, folder)
    assert sorted(series["shared"].steps) == list(range(2000))
    for number in range(4):
        assert series[f"of-{number}"].values == [[value] for value in range(500)]


def test_a_signal_handler_may_log(python: str, site: Path, folder: Path) -> None:
    code = """
seen = []
def tick(*_):
    seen.append(None)
    holdfast.log("tick %d" % len(seen), [len(seen)])
    signal.setitimer(signal.ITIMER_REAL, 0.0001 if len(seen) < 500 else 0)
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.0001)
number = 0
while len(seen) < 500:
    holdfast.log("main %d" % number, [number])
    number += 1
"""
    series = logged(python, site, code, folder)
    assert len(series) > 500
    for name in series:
        assert series[name].values == [[int(name.split()[1])]]


FULL_DISK = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def let_files_grow_to(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""


def test_a_disk_that_is_full_is_told_once_and_counted(python: str, site: Path, folder: Path) -> None:
    code = """
let_files_grow_to(0)
for _ in range(50):
    holdfast.log("x", 1.0)
holdfast.log_many({"x": 1.0, "y": 2})
print("trained")
"""
    result = run(python, site, FULL_DISK + code, folder)
    first, last = result.stderr.splitlines()
    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert first.startswith("holdfast: cannot log to ")
    assert last.startswith("holdfast: 52 logged values of process ")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("value", ["1.5", "[1.5] * 100"])
def test_a_write_cut_short_spoils_no_later_value(python: str, site: Path, folder: Path, value: str) -> None:
    code = f"""
folder = os.environ["HOLDFAST_METRICS_DIR"]
holdfast.log("x", {value})
let_files_grow_to(max(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) + 16)
holdfast.log("x", {value})
let_files_grow_to(resource.RLIM_INFINITY)
logged = 2
while len(os.listdir(folder)) == 2:
    holdfast.log("x", {value})
    logged += 1
holdfast.log("y", 2)
print(logged)
"""
    result = run(python, site, FULL_DISK + code, folder)
    found = reader.read_dir(str(folder))
    lost = int(result.stderr.splitlines()[-1].split()[1])
    assert list(found.by_name["x"].values) == [eval(value)] * 2
    assert list(found.by_name["x"].steps) == [0, int(result.stdout) - 1]
    assert found.by_name["y"].values == [2]
    assert lost == int(result.stdout) - 2


def test_every_value_is_there_after_kill_9(python: str, site: Path, folder: Path) -> None:
    code = """
for step in range(10**9):
    holdfast.log("x", step / 2)
    os.write(1, b".")
"""
    environment = {"PYTHONPATH": str(site), "HOLDFAST_METRICS_DIR": str(folder)}
    with subprocess.Popen([python, "-c", PREAMBLE + code], env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout
        acknowledged = len(child.stdout.read(random.randint(1, 5000)))
        child.send_signal(signal.SIGKILL)
        acknowledged += len(child.stdout.read())
    values = reader.read_dir(str(folder)).by_name["x"].values
    assert acknowledged <= len(values) <= acknowledged + 1
    assert list(values) == [step / 2 for step in range(len(values))]


def test_the_single_file_lets_an_installed_holdfast_be_used(site: Path) -> None:
    code = """
import holdfast.errors, holdfast.script_api.track
print(os.path.basename(holdfast.__file__), holdfast.__version__ == holdfast._version.__version__)
print(holdfast.script_api.track.log is holdfast.log, holdfast.errors.UsageError.exit_code)
"""
    both = Path(f"{site}{os.pathsep}{SOURCE}")
    result = run(sys.executable, both, code, None)
    assert (result.stdout, result.stderr) == ("holdfast.py True\nFalse 2\n", "")


def test_python_m_holdfast_reaches_the_installed_holdfast(site: Path, tmp_path: Path) -> None:
    package = tmp_path / "installed" / "holdfast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nif __name__ == '__main__':\n    print(sys.argv[1:])\n")
    environment = {"PYTHONPATH": f"{site}{os.pathsep}{package.parent}"}
    command = [sys.executable, "-m", "holdfast", "history", "list"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("['history', 'list']\n", "")


def test_the_single_file_alone_has_no_submodules(python: str, site: Path) -> None:
    code = """
try:
    import holdfast.errors
except ImportError as problem:
    print(problem)
print(hasattr(holdfast, "__version__"))
"""
    without_site_packages = "-S"
    assert run(python, site, code, None, without_site_packages).stdout == "No module named 'holdfast.errors'\nFalse\n"


def test_importing_the_package_imports_nothing_else() -> None:
    code = "print([name for name in sys.modules if name.startswith('holdfast.')], holdfast.__version__, holdfast.log)"
    result = run(sys.executable, SOURCE, code, None)
    assert result.stdout.startswith("[] ")
    assert "function log" in result.stdout


def build(target: str, source: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=60)
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module", params=["work tree", "sdist"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("holdfast-track")
    if request.param == "work tree":
        return build("wheel", PACKAGE, place / "wheel")
    with tarfile.open(build("sdist", PACKAGE, place / "sdist")) as archive:
        # Debian 12's Python has no filters yet, and newer ones warn without one.
        safe: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(place / "unpacked", **safe)
    (source,) = (place / "unpacked").iterdir()
    return build("wheel", source, place / "wheel")


def test_the_small_package_is_three_files_that_log(wheel: Path, python: str, tmp_path: Path, folder: Path) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
        (metadata,) = (archive.read(name) for name in archive.namelist() if name.endswith("/METADATA"))
    modules = {path.name: path.read_bytes() for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert modules == {
        "holdfast.py": TRACK.read_bytes(),
        "_holdfast_values.py": VALUES.read_bytes(),
        "_holdfast_client_names.py": CLIENT_NAMES.read_bytes(),
    }
    assert b"\nRequires-Python: >=3.6\n" in metadata
    assert b"\nRequires-Dist:" not in metadata
    assert list(logged(python, installed, 'holdfast.log("loss", 0.3, step=10)', folder)["loss"].values) == [0.3]
