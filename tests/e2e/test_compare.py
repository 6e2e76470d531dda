"""Runs beside each other: as a table, as JSON, as a page; their curves here and in files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from gpuruns import receipt
from holdfast.runner.store.jsonl import sealed

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

SVG = "{http://www.w3.org/2000/svg}"
SCRIPT = """
import os, struct, sys, zlib, holdfast
rate = float(sys.argv[2])
for step in range(50):
    holdfast.log_many({"loss": 2 * rate ** step if step != 20 else float("nan"), "same": 1.0}, step=step)
holdfast.log("<b>name", "<script>alert(1)</script>")
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
dots = zlib.compress(bytes([0, int(rate * 100), 0]))
header = struct.pack(">IIBBBBB", 2, 1, 8, 0, 0, 0, 0)
parts = chunk(b"IHDR", header) + chunk(b"IDAT", dots) + chunk(b"IEND", b"")
holdfast.log_image("picture", b"\\x89PNG\\r\\n\\x1a\\n" + parts)
holdfast.log_table("table", [{"rate": rate}])
os.makedirs("outputs", exist_ok=True)
open("outputs/model.bin", "w").write(sys.argv[2])
open("outputs/equal.bin", "w").write("equal")
"""


@pytest.fixture
def runs(desk: Desk) -> Desk:
    desk.script(SCRIPT)
    assert desk.submit("train.py", "--rate", "0.9", "--fast").code == 0
    desk.script(SCRIPT + "\n# <i>changed</i>\n")
    assert desk.submit("train.py", "--rate", "0.8").code == 0
    return desk


def sections(found: Any) -> dict[str, dict[str, tuple[list[Any], bool]]]:
    return {
        section["title"]: {row["name"]: (row["values"], row["differs"]) for row in section["rows"]}
        for section in found["sections"]
    }


def test_what_differs_is_found_in_everything_a_run_has(runs: Desk) -> None:
    found = runs.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "json").json
    assert [run["run_number"] for run in found["runs"]] == [1, 2]
    by_title = sections(found)
    assert by_title["parameters"]["rate"] == ([0.9, 0.8], True)
    assert by_title["parameters"]["fast"] == ([True, None], True)
    assert by_title["metrics"]["loss"] == ([2 * 0.9**49, 2 * 0.8**49], True)
    assert by_title["metrics"]["loss (best)"] == ([2 * 0.9**49, 2 * 0.8**49], True)
    assert by_title["metrics"]["same"] == ([1.0, 1.0], False)
    assert by_title["metrics"]["picture"][1]
    assert by_title["metrics"]["picture"][0][0].startswith("image 2x1 ")
    assert by_title["metrics"]["table"][1]
    assert by_title["code"]["train.py"][1]
    assert by_title["outputs"]["model.bin"][1]
    assert not by_title["outputs"]["equal.bin"][1]
    assert by_title["run"]["target"] == (["local", "local"], False)
    assert "+# <i>changed</i>" in found["code"][0]
    assert json.dumps(found) == json.dumps(found, allow_nan=False)


def test_the_table_shows_what_differs_and_all_when_asked(runs: Desk) -> None:
    short = runs.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "table")
    assert re.search(r"^parameters +rate +0\.9 +0\.8$", short.text, re.MULTILINE)
    assert "equal.bin" not in short.text
    assert "--all shows them" in short.err
    whole = runs.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "table", "--all").text
    assert re.search(r"^ +outputs +equal\.bin ", whole, re.MULTILINE)
    assert re.search(r"^\* +outputs +model\.bin ", whole, re.MULTILINE)
    assert runs.holdfast("history", "compare", "-r", "1", "-r", "1").code == 2


class Page(HTMLParser):
    """Every tag and attribute of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_is_whole_and_nothing_in_it_runs_or_is_fetched(runs: Desk) -> None:
    done = runs.holdfast("history", "compare", "-r", "1", "-r", "2", "--to", "compare.html")
    assert (done.code, done.text) == (0, "compare.html\n")
    text = (runs.project / "compare.html").read_text()
    page = Page(text)
    kinds = {tag for tag, _ in page.tags}
    assert kinds & {"script", "link", "iframe", "object", "b", "i"} == set()
    assert "<script>alert(1)</script>" in page.words
    assert "# <i>changed</i>" in page.words
    names = {name for _, attributes in page.tags for name in attributes}
    assert [name for name in names if name.startswith("on")] == []
    addresses = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert len(addresses) == 2
    assert all(str(address).startswith("data:image/png;base64,") for address in addresses)
    [policy] = [attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes]
    assert str(policy).startswith("default-src 'none'")
    assert [tag for tag, _ in page.tags].count("svg") == 2
    assert runs.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "html").text == text


def test_code_that_is_gone_and_gpus_are_told(runs: Desk) -> None:
    attempt = runs.attempt("2")
    event = {"seq": 99, "wall_ns": 1, "mono_ns": 1, "type": "gpu_receipt", **receipt()}
    with (attempt / "events.jsonl").open("ab") as events:
        events.write(sealed(event))
    for object_ in (runs.home / "objects").rglob("*"):
        if object_.is_file():
            object_.unlink()
    done = runs.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "json")
    assert done.code == 0, done.err
    notes = {section["title"]: section["note"] for section in done.json["sections"]}
    assert "is incomplete here" in notes["code"]
    assert sections(done.json)["GPU"]["verdict"] == ([None, "used"], True)


def test_pictures_come_home_from_another_store(desk: Desk, tmp_path: Path) -> None:
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(f"type: local\nroot: {tmp_path / 'elsewhere'}\n")
    desk.trust("local")
    desk.script(SCRIPT)
    for rate in ("0.9", "0.8"):
        assert desk.submit("train.py", "--rate", rate).code == 0
    for number in ("1", "2"):
        value = desk.record(number)["picture"]
        data = (desk.attempt(number) / "metrics" / value["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == value["sha256"]
    assert desk.holdfast("store", "verify").code == 0
    page = desk.holdfast("history", "compare", "-r", "1", "-r", "2", "-o", "html").text
    assert page.count("data:image/png;base64,") == 2


@pytest.mark.parametrize(("to", "said"), [("x.txt", ".html or .json"), ("nowhere/x.html", "cannot be written")])
def test_a_file_that_cannot_be_is_refused(runs: Desk, to: str, said: str) -> None:
    done = runs.holdfast("history", "compare", "-r", "1", "-r", "2", "--to", to)
    assert done.code == 2
    assert said in done.err
    assert list(runs.project.glob("*.tmp")) == []


def test_curves_in_the_terminal(runs: Desk) -> None:
    done = runs.holdfast("history", "plot", "-r", "1", "-r", "2", "--name", "loss", "--log")
    lines = done.text.splitlines()
    assert lines[0] == "loss by step"
    assert lines[-1].split() == ["0", "49"]
    assert {line.split()[0] for line in lines if "┤" in line} >= {"1", "0.1", "0.01", "0.001"}
    assert "run 1" in done.text
    assert "run 2" in done.text
    plain = runs.holdfast("history", "plot", "-r", "1", "--x", "time", env={"LANG": "C", "PYTHONIOENCODING": "ascii"})
    assert plain.text.isascii()
    assert plain.text.startswith("loss by seconds\n")
    assert "same by seconds" in plain.text


def test_curves_in_files(runs: Desk) -> None:
    words = ("history", "plot", "-r", "1", "-r", "2", "--name", "loss", "--name", "same", "--to")
    assert runs.holdfast(*words, "c.svg").text == "c.svg\n"
    root = ElementTree.parse(runs.project / "c.svg").getroot()
    strokes = [line for line in root.iter(f"{SVG}polyline") if line.get("stroke-width") == "1.5"]
    # Twice a curve with a gap at its 20th point, twice a flat one.
    assert [len(str(line.get("points")).split()) for line in strokes] == [20, 29, 20, 29, 50, 50]
    texts = {node.text for node in root.iter(f"{SVG}text")}
    assert {"run 1", "run 2", "loss", "same"} <= texts
    assert runs.holdfast(*words, "c.PNG", "--log", "--x", "time").code == 0
    data = (runs.project / "c.PNG").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">I", data[16:20]) == (1920,)
    assert zlib.crc32(data[12:29]) == struct.unpack(">I", data[29:33])[0]


def test_png_without_pillow_names_the_extra_and_writes_no_file(runs: Desk, tmp_path: Path) -> None:
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'PIL'\")\n")
    without = {"PYTHONPATH": str(tmp_path)}
    refused = runs.holdfast("history", "plot", "-r", "1", "--to", "none.png", env=without)
    assert (refused.code, refused.text) == (2, "")
    assert "pip install 'holdfast[png]'" in refused.err
    assert [name for name in os.listdir(runs.project) if "none" in name] == []
    assert runs.holdfast("history", "plot", "-r", "1", "--to", "some.svg", env=without).code == 0


def test_mistakes_of_plot_are_told(runs: Desk) -> None:
    wrong = runs.holdfast("history", "plot", "--name", "lss")
    assert wrong.code == 2
    assert "these runs have no metric 'lss'" in wrong.err
    assert "loss" in wrong.err
    assert ".svg or .png" in runs.holdfast("history", "plot", "--to", "x.gif").err


# Ends with who unpickles, opens or imports what; the control below shows that it sees them.
WATCHED = """
import json, os, sys
seen = []
def watch(event, arguments):
    if event.startswith("pickle."):
        seen.append(event)
    elif event == "import" and arguments[0].split(".")[0] in ("pickle", "_pickle", "numpy", "torch", "joblib", "dill"):
        seen.append("import " + arguments[0])
    elif event == "open" and str(arguments[0]).endswith((".pkl", ".pt", ".npy", ".joblib")):
        seen.append("open " + str(arguments[0]))
sys.addaudithook(watch)
sys.argv[0] = "holdfast"
try:
    {do}
finally:
    sys.stdout.flush()
    with open(os.environ["SEEN"], "w") as target:
        json.dump(seen, target)
"""
RUN_MAIN = "from holdfast.cli.main import run; assert run(sys.argv[1:]) == 0"
EVIL = """
import os, pickle, sys, holdfast
class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["CANARY"],)
holdfast.log("loss", 0.5)
holdfast.log("loss", 0.4)
os.makedirs("outputs", exist_ok=True)
for name in ("model.pkl", "model.pt", "array.npy", "model.joblib"):
    data = pickle.dumps(Evil())
    if name.endswith("npy"):
        head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
        data = b"\\x93NUMPY\\x01\\x00" + len(head + b"\\n").to_bytes(2, "little") + head + b"\\n" + data
    open("outputs/" + name, "wb").write(data)
"""


def watched(desk: Desk, place: Path, do: str, *words: str) -> list[str]:
    (place / "seen").unlink(missing_ok=True)
    env = {**desk.env, "SEEN": str(place / "seen"), "CANARY": str(place / "canary")}
    command = [sys.executable, "-c", WATCHED.format(do=do), *words]
    subprocess.run(command, cwd=desk.project, env=env, capture_output=True, timeout=100, check=True)
    found: list[str] = json.loads((place / "seen").read_text())
    return found


def test_nothing_here_unpickles_what_a_run_left(desk: Desk, tmp_path: Path) -> None:
    desk.script(EVIL)
    for _ in range(2):
        assert desk.submit("-e", f"CANARY={tmp_path / 'canary'}", "train.py").code == 0
    model = next(desk.home.rglob("outputs/model.pkl"))
    for words in (
        ("history", "list", "--all"),
        ("history", "info"),
        ("history", "metrics"),
        ("history", "compare", "-r", "1", "-r", "2", "--all", "-o", "json"),
        ("history", "compare", "-r", "1", "-r", "2", "--to", "c.html"),
        ("history", "plot", "--name", "loss", "--to", "c.png"),
        ("history", "plot", "-r", "1", "-r", "2"),
    ):
        assert watched(desk, tmp_path, RUN_MAIN, *words) == [], words
    assert (desk.project / "c.html").exists()
    assert (desk.project / "c.png").exists()
    assert not (tmp_path / "canary").exists()
    control = watched(desk, tmp_path, f"import pickle; pickle.load(open({str(model)!r}, 'rb'))")
    assert {"import pickle", f"open {model}", "pickle.find_class"} <= set(control)
    assert (tmp_path / "canary").exists()
