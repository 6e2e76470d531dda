"""Pictures, tables and arrays as scripts have them: real libraries, in an environment of their own."""

from __future__ import annotations

import base64
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from holdfast.metrics import reader
from holdfast.metrics import values as logged
from lab.pythons import OLDEST, find_python
from lab.shelf import interpreter

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "holdfast"
LIBRARIES = ("numpy==2.2.6", "pandas==2.3.3", "polars==2.0.0", "matplotlib==3.10.9", "pillow==12.3.0")
# 3 x 2 dots, as a camera would write it.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////"
    "////////wAALCAACAAMBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AN//Z"
)


def oldest() -> list[str]:
    return list(filter(None, [find_python(OLDEST)]))


@pytest.fixture(scope="session")
def libraries() -> str:
    """An interpreter that has what people log from."""
    return str(interpreter(ROOT, "libraries", *LIBRARIES))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copyfile(SOURCE / "script_api" / "track.py", folder / "holdfast.py")
    shutil.copyfile(SOURCE / "script_api" / "values.py", folder / "_holdfast_values.py")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "metrics"
    path.mkdir()
    return path


def run(python: str, site: Path, folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    place = {"PYTHONPATH": str(site), "HOLDFAST_METRICS_DIR": str(folder), "HOME": str(folder.parent), "LC_ALL": "C"}
    words = [python, "-c", "import os, sys, threading\nimport holdfast\n" + code]
    env = {"PATH": os.environ["PATH"], "MPLBACKEND": "Agg", **place}
    return subprocess.run(words, env=env, cwd=folder.parent, capture_output=True, text=True, timeout=100, check=False)


def values(python: str, site: Path, folder: Path, code: str) -> dict[str, Any]:
    """The last value of each name, from a script that must end well and say nothing."""
    done = run(python, site, folder, code)
    assert (done.returncode, done.stderr) == (0, "")
    found = reader.read_dir(str(folder))
    assert found.problems == ()
    return {name: series.values[-1] for name, series in found.by_name.items()}


def dots(folder: Path, value: Any) -> tuple[int, int, int, bytes]:
    """Width, height, colour type and the dots of a PNG that we wrote."""
    found = logged.image(value)
    assert found is not None, value
    data = logged.read_image(str(folder), found)
    assert data is not None
    parts, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        parts[kind] = data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + parts[kind])
        at += 12 + length
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert (width, height, depth) == (found.width, found.height, 8)
    raw = zlib.decompress(parts[b"IDAT"])
    line = len(raw) // height
    assert {raw[start] for start in range(0, len(raw), line)} == {0}
    return width, height, colour, b"".join(raw[start + 1 : start + line] for start in range(0, len(raw), line))


def test_arrays_become_pictures_dot_by_dot(libraries: str, site: Path, folder: Path) -> None:
    code = """
import numpy
grey = numpy.arange(6, dtype="uint8").reshape(2, 3)
holdfast.log_image("grey", grey, step=7)
holdfast.log_image("floats", numpy.array([[0.0, 0.5, 1.0], [numpy.nan, 1.0000001, -1e-9]], dtype="float32"))
holdfast.log_image("colour", numpy.stack([grey, grey + 10, grey + 20], axis=-1))
holdfast.log_image("alpha", numpy.full((1, 2, 4), 9, dtype="int64"))
holdfast.log_image("mask", numpy.array([[True, False]]))
holdfast.log_image("view", numpy.arange(12, dtype="uint8").reshape(3, 4).T[::2])
class Tensor:
    def __init__(self, array): self.array, self.shape, self.dtype = array, array.shape, array.dtype
    def detach(self): return self
    def cpu(self): return self
    def __array__(self): return self.array
holdfast.log_image("tensor", Tensor(numpy.stack([grey, grey + 10, grey + 20])))
"""
    found = values(libraries, site, folder, code)
    grey = bytes(range(6))
    colour = b"".join(bytes((dot, dot + 10, dot + 20)) for dot in grey)
    assert dots(folder, found["grey"]) == (3, 2, 0, grey)
    assert dots(folder, found["floats"]) == (3, 2, 0, bytes((0, 128, 255, 0, 255, 0)))
    assert dots(folder, found["colour"]) == dots(folder, found["tensor"]) == (3, 2, 2, colour)
    assert dots(folder, found["alpha"]) == (2, 1, 6, b"\t" * 8)
    assert dots(folder, found["mask"]) == (2, 1, 0, b"\xff\0")
    assert dots(folder, found["view"]) == (3, 2, 0, bytes((0, 4, 8, 2, 6, 10)))
    assert list(reader.read_dir(str(folder)).by_name["grey"].steps) == [7]


def test_figures_and_pil_images_are_known_by_what_they_are(libraries: str, site: Path, folder: Path) -> None:
    code = """
import PIL.Image
from matplotlib import pyplot
from matplotlib.figure import Figure
figure, axes = pyplot.subplots(figsize=(2, 1), dpi=50)
axes.plot([1, 3, 2])
holdfast.log("figure", figure)
holdfast.log_figure("said", Figure(figsize=(1, 1), dpi=30))
holdfast.log("pil", PIL.Image.new("RGB", (4, 3), "red"))
holdfast.log_many({"palette": PIL.Image.new("P", (2, 2)), "loss": 0.5})
holdfast.log_image("cmyk", PIL.Image.new("CMYK", (2, 5)))
"""
    found = values(libraries, site, folder, code)
    sizes = {name: (value["width"], value["height"]) for name, value in found.items() if name != "loss"}
    assert sizes == {"figure": (100, 50), "said": (30, 30), "pil": (4, 3), "palette": (2, 2), "cmyk": (2, 5)}
    assert found["loss"] == 0.5
    for value in (found["figure"], found["cmyk"]):
        image = logged.image(value)
        assert image is not None
        assert logged.read_image(str(folder), image) is not None


def test_frames_and_arrays_become_tables(libraries: str, site: Path, folder: Path) -> None:
    code = """
import datetime, numpy, pandas, polars
columns = {"name": ["a", "b"], "score": [0.5, float("nan")], "day": [datetime.date(2020, 2, 29), None]}
holdfast.log("pandas", pandas.DataFrame(columns))
holdfast.log("polars", polars.DataFrame({"name": ["a", "b"], "score": [0.5, None]}))
holdfast.log_table("grouped", pandas.DataFrame({"k": ["x", "x"], "v": [1, 2]}).groupby("k").sum())
holdfast.log_table("missing", pandas.DataFrame({"v": pandas.array([1, None], dtype="Int64"), "t": [pandas.NaT] * 2}))
holdfast.log_table("structured", numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]))
holdfast.log_table("square", numpy.arange(4).reshape(2, 2))
holdfast.log_table("dicts", [{"a": 1}, {"b": numpy.float32(0.25)}])
holdfast.log_table("lists", {"a": (1, 2), "b": numpy.array([3, 4])})
holdfast.log_table("none", [])
"""
    found = values(libraries, site, folder, code)
    tables = {name: logged.table(value) for name, value in found.items()}
    assert str(found["pandas"]["rows"]) == "[['a', 0.5, '2020-02-29'], ['b', nan, None]]"
    assert found["pandas"]["columns"] == ["name", "score", "day"]
    assert found["polars"]["rows"] == [["a", 0.5], ["b", None]]
    assert tables["grouped"] == logged.Table(("k", "v"), (("x", 3),))
    assert tables["missing"] == logged.Table(("v", "t"), ((1, None), (None, None)))
    assert tables["structured"] == logged.Table(("a", "b"), ((1, 2.5),))
    assert tables["square"] == logged.Table(("0", "1"), ((0, 1), (2, 3)))
    assert tables["dicts"] == logged.Table(("a", "b"), ((1, None), (None, 0.25)))
    assert tables["lists"] == logged.Table(("a", "b"), ((1, 3), (2, 4)))
    assert tables["none"] == logged.Table((), ())


def test_a_small_array_is_kept_and_a_large_one_described(libraries: str, site: Path, folder: Path) -> None:
    code = """
import numpy
holdfast.log("small", numpy.arange(10000))
holdfast.log("large", numpy.ones((101, 100), dtype="float32"))
holdfast.log("words", numpy.array(["a"] * 10001))
import pandas, polars
holdfast.log("frame", pandas.DataFrame({"a": numpy.zeros(1000001), "b": 0}))
holdfast.log("lazy", polars.LazyFrame({"a": [1]}))
"""
    found = values(libraries, site, folder, code)
    assert found["small"] == 9999  # a value per step
    assert found["large"] == {
        "type": "array",
        "shape": [101, 100],
        "dtype": "float32",
        "min": 1.0,
        "max": 1.0,
        "mean": 1.0,
    }
    assert found["frame"] == {"type": "table", "columns": ["a", "b"], "row_count": 1000001}
    assert "LazyFrame" in found["lazy"]
    assert found["words"] == {"type": "array", "shape": [10001], "dtype": "<U1"}


@pytest.mark.parametrize("python", [sys.executable, *oldest()])
def test_files_bytes_text_and_dicts_need_no_library(python: str, site: Path, folder: Path) -> None:
    (folder.parent / "photo.jpg").write_bytes(JPEG)
    code = f"""
import pathlib
data = {JPEG!r}
holdfast.log_image("path", pathlib.Path("photo.jpg"))
holdfast.log_image("text", "photo.jpg", step=1)
holdfast.log_image("bytes", bytearray(data))
holdfast.log_text("note", b"caf\\xc3\\xa9")
holdfast.log_text("number", 5)
holdfast.log_dict("dict", {{"a": (1, 2), 5: None}})
holdfast.log_table("table", [{{"a": 1}}])
"""
    found = values(python, site, folder, code)
    assert (found["note"], found["number"], found["dict"]) == ("café", "5", {"a": [1, 2], "5": None})
    for name in ("path", "text", "bytes"):
        image = logged.image(found[name])
        assert image is not None
        assert (image.width, image.height, image.media_type) == (3, 2, "image/jpeg")
        assert logged.read_image(str(folder), image) == JPEG
    assert len({found[name]["file"] for name in ("path", "text", "bytes")}) == 3


def test_what_is_no_picture_is_lost_and_told_once_and_the_rest_goes_on(
    libraries: str, site: Path, folder: Path
) -> None:
    code = """
import numpy
for bad in ("absent.png", b"GIF89a", numpy.zeros((2, 2, 7)), numpy.full((2, 2), 300.0), numpy.full((2, 2), 256),
            numpy.zeros(5), object(), None, b"\\xff\\xd8\\xff", numpy.array([["a"]])):
    holdfast.log_image("bad", bad)
holdfast.log_table("bad", {"a": [1], "b": [1, 2]})
holdfast.log_table("bad", 5)
holdfast.log_dict("bad", 5)
holdfast.log_figure("bad", 5)
holdfast.log("loss", 0.25)
"""
    done = run(libraries, site, folder, code)
    assert done.returncode == 0
    first, last = done.stderr.splitlines()
    assert "no image can be made of this str" in first
    assert "absent.png" in first
    assert last.startswith("holdfast: 14 logged values of process ")
    found = reader.read_dir(str(folder)).by_name
    assert {name: list(series.values) for name, series in found.items()} == {"loss": [0.25]}
    assert [path.suffix for path in folder.iterdir()].count(".png") == 0


def test_one_value_too_large_costs_that_value_alone(site: Path, folder: Path) -> None:
    code = """
holdfast.log_many({"huge": "x" * 17000000, "small": [1]})
holdfast.log_image("image", b"\\x89PNG\\r\\n\\x1a\\n" + bytes(16000001))
"""
    done = run(sys.executable, site, folder, code)
    assert done.returncode == 0
    assert "larger than 16000000" in done.stderr.splitlines()[0]
    assert "holdfast: 2 logged values" in done.stderr.splitlines()[1]
    assert {name: list(found.values) for name, found in reader.read_dir(str(folder)).by_name.items()} == {
        "small": [[1]]
    }
    assert sum(path.stat().st_size for path in folder.iterdir()) < 10000


def test_threads_and_forks_never_share_a_file(site: Path, folder: Path) -> None:
    code = f"""
data = {JPEG!r}
def work(name):
    for number in range(50):
        holdfast.log_image(name, data + b"%d" % number, step=number)
child = os.fork()
who = "parent" if child else "child"
threads = [threading.Thread(target=work, args=("%s-%d" % (who, number),)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if child:
    sys.exit(os.waitpid(child, 0)[1])
"""
    values(sys.executable, site, folder, code)
    found = reader.read_dir(str(folder)).by_name
    assert len(found) == 8
    files = set()
    for series in found.values():
        for step, value in zip(series.steps, series.values, strict=True):
            image = logged.image(value)
            assert image is not None
            assert logged.read_image(str(folder), image) == JPEG + b"%d" % step
            files.add(image.file)
    assert len(files) == 400


def test_a_run_without_the_second_file_goes_on(site: Path, folder: Path) -> None:
    (site / "_holdfast_values.py").unlink()
    done = run(sys.executable, site, folder, "holdfast.log('x', 1.0); holdfast.log_image('y', b''); print('went on')")
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert "logging is off" in done.stderr


@pytest.mark.parametrize("file", ["../1-0-0.png", "/etc/passwd", "1-0-0.png/x", "1-0-0.svg", "1-0.png", "١-0-0.png", 5])
def test_a_reference_that_leads_elsewhere_is_no_picture(file: object) -> None:
    value: Any = {"type": "image", "file": file, "width": 1, "height": 1, "sha256": "0" * 64}
    assert logged.image(value) is None


def test_a_picture_is_believed_by_its_hash_alone(site: Path, folder: Path) -> None:
    value = values(sys.executable, site, folder, f"holdfast.log_image('x', {JPEG!r})")["x"]
    image = logged.image(value)
    assert image is not None
    path = folder / image.file
    path.write_bytes(JPEG + b"x")
    assert logged.read_image(str(folder), image) is None
    path.unlink()
    assert logged.read_image(str(folder), image) is None
    path.symlink_to(folder / "elsewhere")
    (folder / "elsewhere").write_bytes(JPEG)
    assert logged.read_image(str(folder), image) is None
    path.unlink()
    os.mkfifo(path)
    assert logged.read_image(str(folder), image) is None


def test_a_long_table_is_told_by_its_length_in_the_history(site: Path, folder: Path) -> None:
    code = "holdfast.log_table('t', [{'a': n} for n in range(101)]); holdfast.log_table('s', [{'a': 1}])"
    values(sys.executable, site, folder, code)
    assert reader.summary(reader.read_dir(str(folder))) == {
        "t": {"type": "table", "columns": ["a"], "row_count": 101},
        "s": {"type": "table", "columns": ["a"], "rows": [[1]]},
    }
