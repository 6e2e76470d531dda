"""The tools that make documentation: tables filled in from the source, and the picture of a terminal."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from holdfast.cli.table.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DOCS: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "docs.py"))
TRANSCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "transcript.py"))
SVG = "{http://www.w3.org/2000/svg}"


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "tools/docs.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_manual_page_has_every_command_and_option_and_no_warnings() -> None:
    page = ROOT / "docs" / "holdfast.1"
    plain = page.read_text(encoding="utf-8").replace("\\-", "-")
    for command in (command for command in COMMANDS if not command.hidden):
        assert f"\\fB{command.title}" in plain, command.title
        flags = [flag for option in command.options if not option.hidden for flag in option.flags]
        assert [flag for flag in flags if f"\\fB{flag}\\fR" not in plain] == []
    if shutil.which("man") is None:
        pytest.skip("NOT TESTED: man is not installed")
    command_line = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_wheel_installs_the_manual_page_and_the_completion_scripts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith(".data/data/share/man/man1/holdfast.1")]
    assert {f"holdfast/cli/completions/holdfast.{shell}" for shell in ("bash", "zsh", "fish")} <= set(names)


def test_sources_of_generated_parts_exist() -> None:
    sources = [
        source
        for page in (ROOT / "docs").glob("*.md")
        for source in re.findall(r"<!-- made from (\S+):", page.read_text("utf-8"))
    ]
    assert len(sources) > 5
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_only_marked_parts_are_replaced() -> None:
    text = "mine\n<!-- made from x.py: exit codes -->\nstale words\n<!-- end -->\nalso mine\n"
    filled = DOCS["filled"](text)
    assert filled.startswith("mine\n<!-- made from x.py: exit codes -->\n\n| exit code |")
    assert filled.endswith(" |\n\n<!-- end -->\nalso mine\n")
    assert "stale words" not in filled
    assert DOCS["filled"](filled) == filled


def test_unknown_generated_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="exit cods"):
        DOCS["filled"]("<!-- made from x.py: exit cods -->\n<!-- end -->")


def test_a_bar_does_not_break_a_table() -> None:
    assert DOCS["table"](("a", "b"), [("`X|Y`", "z")]) == "| a | b |\n| --- | --- |\n| `X\\|Y` | z |"


def test_table_refuses_a_cell_of_several_lines() -> None:
    with pytest.raises(ValueError, match="more than one line: 'first"):
        DOCS["table"](("a", "b"), [("x", "first\nsecond")])


def test_a_screen_obeys_carriage_return_and_erasing() -> None:
    assert _shown("storing 1\rstoring 22\r\x1b[Kdone\r\n") == ["done"]
    assert _shown("12345\rab\n\nc") == ["ab345", "", "c"]


def test_a_screen_wraps_at_its_edge() -> None:
    assert [len(line) for line in _shown("x" * (TRANSCRIPT["COLUMNS"] + 3))] == [TRANSCRIPT["COLUMNS"], 3]


def test_a_screen_keeps_colours_and_drops_other_sequences() -> None:
    [line] = TRANSCRIPT["screen"]("\x1b[?25l\x1b[32mok\x1b[0m \x1b[1;36mx\x1b[39my\x1b[22mz")
    assert "".join(letter for letter, _ in line) == "ok xyz"
    looks = [(style.colour, style.bold) for _, style in line]
    assert looks == [("green", False)] * 2 + [("", False), ("cyan", True), ("", True), ("", False)]


def test_a_picture_places_every_word_in_its_column() -> None:
    root = ElementTree.fromstring(_drawn("a  <b>\n\x1b[31mred\x1b[0m·"))
    texts = {node.text: node for node in root.iter(f"{SVG}text")}
    assert set(texts) == {"a", "<b>", "red", "·"}
    columns = {text: float(str(node.get("x")).split()[0]) for text, node in texts.items()}
    assert columns["a"] == columns["red"] < columns["<b>"] == columns["·"]
    assert float(str(texts["a"].get("y"))) < float(str(texts["red"].get("y")))
    assert texts["red"].get("fill") != texts["a"].get("fill")


def test_charts_are_drawn_and_do_not_depend_on_fonts() -> None:
    root = ElementTree.fromstring(_drawn("▁█ ⣿ └─┤"))
    assert list(root.iter(f"{SVG}text")) == []
    assert len(list(root.iter(f"{SVG}path"))) == 3


def test_the_same_screen_gives_the_same_picture() -> None:
    assert _drawn("a ▁⠉ b") == _drawn("a ▁⠉ b")


def test_the_picture_in_the_documentation_shows_what_the_script_plays() -> None:
    root = ElementTree.parse(ROOT / "docs" / "demo.svg").getroot()
    texts = {node.text for node in root.iter(f"{SVG}text")}
    assert [scene.line for scene in TRANSCRIPT["SCENES"] if scene.line not in texts] == []


def test_a_command_is_played_at_a_real_terminal(tmp_path: Path) -> None:
    asked = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns, os.getcwd())"
    [line] = _shown(TRANSCRIPT["perform"]([sys.executable, "-c", asked], str(tmp_path), str(tmp_path)))
    assert line == f"True {TRANSCRIPT['COLUMNS']} {tmp_path}"


def test_a_command_that_fails_makes_no_picture(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with code 3"):
        TRANSCRIPT["perform"]([sys.executable, "-c", "raise SystemExit(3)"], str(tmp_path), str(tmp_path))


def _shown(text: str) -> list[str]:
    return ["".join(letter for letter, _ in line) for line in TRANSCRIPT["screen"](text)]


def _drawn(text: str) -> str:
    picture: str = TRANSCRIPT["draw"](TRANSCRIPT["screen"](text))
    return picture


def test_pre_commit_runs_the_checks_of_make_check() -> None:
    config = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = [hook["entry"] for repo in config["repos"] for hook in repo["hooks"]]
    makefile = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin").replace("--check ", "")
    assert [entry for entry in entries if entry.replace(" --force-exclude", "") not in makefile] == []
    assert len(entries) == 4
