"""Text of a run, a target or a project on its way to terminals, spreadsheets, pages and notifications."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import HOLDFAST
from holdfast.present.csv_table import as_csv
from holdfast.present.output import as_json, as_tsv, as_yaml
from holdfast.present.terminal import EscapeFilter, neutralise, show

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
INVISIBLE = "\u200b\u2060\ufeff\u2028\u2029\u3164\u2800\U000e0041"
ACTING = "\x07\x9b\x9d\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil\x1b\\\x1b]0;title\x07\x1bP\x1b\\\x1b[2J\x1b[?1049h"
HOSTILE = f"evil{BIDI}{INVISIBLE}{ACTING}end"
FORBIDDEN = [*BIDI, *INVISIBLE, "\x07", "\x9b", "\x9d", "\x1b]", "\x1bP", "\x1b[2J", "\x1b[?"]


@pytest.fixture
def hostile(desk: Desk) -> Desk:
    """A project, a script and a run whose every text acts on terminals."""
    name = HOSTILE.replace("/", "-").replace("\u2028", "")[:60]
    desk.script(
        f"import holdfast, os\nprint({HOSTILE!r}, flush=True)\n"
        f"holdfast.log({HOSTILE!r}, 1)\nholdfast.log('s', {HOSTILE!r})\n"
        f"open('outputs/' + {name!r}, 'w').write('1')\nraise SystemExit(3)\n"
    )
    for _ in range(2):
        desk.submit("train.py", HOSTILE)
    desk.holdfast("history", "tag", "-r", "1", f"mood={HOSTILE}")
    desk.holdfast("history", "note", "-r", "1", HOSTILE)
    config = desk.project / "aml_config"
    config.mkdir()
    (config / "odd.compute").write_text(f"type: {json.dumps(HOSTILE)}\n{json.dumps(HOSTILE)}: 1\n")
    (config / "odd.runconfig").write_text(f"target: odd\nframework: {json.dumps(HOSTILE)}\n")
    return desk


COMMANDS = [
    *("runs", "info", "status", "logs", "check", "history list -o tsv", "history list -o csv", "history list -o yaml"),
    *("history list -o json", "history list -o jsonc", "return --overwrite", "history metrics", "history plot -r 1"),
    *("history compare -r 1 -r 2 --all", "submit -c odd train.py", "info -a nothing", "diff -r 1", "runs --where x"),
    *("history download -d x", "history metrics --name s -o csv"),
]


def test_nothing_of_a_run_or_project_acts_on_the_terminal(hostile: Desk) -> None:
    found = {}
    for command in COMMANDS:
        shown = at_terminal(hostile, *command.split())
        assert "unknown command" not in shown
        assert "Traceback" not in shown
        found[command] = [code for code in FORBIDDEN if code in shown]
    assert {command: codes for command, codes in found.items() if codes} == {}


def test_log_into_a_pipe_stays_as_it_is(hostile: Desk) -> None:
    assert hostile.holdfast("logs").text == HOSTILE + "\n"
    assert (hostile.attempt() / "log").read_text() == HOSTILE + "\n"


def test_colours_and_progress_bars_of_a_log_stay() -> None:
    log = "\x1b[1;31mred\x1b[0m\r 10%|█▏ | 1/9\r\x1b[K\x1b[A\x1b[2Kפלט 👩‍💻 é\n".encode()
    escapes = EscapeFilter()
    assert escapes.feed(log) + escapes.finish() == log


def test_pages_and_pictures_hold_no_hostile_text(hostile: Desk, tmp_path: Path) -> None:
    page, chart = tmp_path / "page.html", tmp_path / "chart.svg"
    assert hostile.holdfast("history", "compare", "-r", "1", "-r", "2", "--all", "--to", str(page)).code == 0
    hostile.holdfast("history", "plot", "-r", "1", "--to", str(chart))
    for file in (page, chart):
        text = file.read_text() if file.exists() else ""
        assert [code for code in (*BIDI, "\x1b", "\x9b", "<script") if code in text] == []


@pytest.mark.parametrize("lead", ["", "\n", "\r", "\t", " ", "\n\n ", "\ufeff", "\u200b", "\xa0", "\x0b", "\x00"])
@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_of_a_csv_begins_a_formula(lead: str, begin: str) -> None:
    text = as_csv([{"name": f"{lead}{begin}cmd|' /C calc'!A0", f"{lead}{begin}1": "x;=1+1"}])
    for row in csv.reader(io.StringIO(text, newline="")):
        for cell in row:
            assert not is_formula(cell)


@given(st.text(st.sampled_from("=+-@\t\r\n \u200b\ufeff\uff1d'\",;ab1\x00\xa0"), max_size=8))
def test_csv_reads_back_and_holds_no_formula(cell: str) -> None:
    read = list(csv.reader(io.StringIO(as_csv([[cell, 1]]).replace("\x00", "?"), newline="")))
    assert len(read) == 1
    assert read[0][1] == "1"
    assert read[0][0].removeprefix("'") == cell.replace("\x00", "?").removeprefix("'")
    assert not is_formula(read[0][0])


@given(st.text(max_size=20))
def test_a_tsv_line_has_its_columns_whatever_is_in_them(cell: str) -> None:
    lines = as_tsv([{"a": cell, "b": 1}]).split("\n")
    assert len(lines) == 2
    assert lines[0].count("\t") == 1


@given(st.text(st.characters() | st.sampled_from(BIDI + INVISIBLE + "\x1b[]\x07\x9b"), max_size=20))
def test_texts_for_terminals_hold_nothing_that_acts(text: str) -> None:
    for shown in (show(text), neutralise(text), as_json(text)):
        assert [code for code in (*BIDI, "\x9b", "\x1b]", "\x07") if code in shown] == []
    assert json.loads(as_json(text)) == text
    assert show(show(text)) == show(text)


def test_yaml_with_escapes_reads_back() -> None:
    from ruamel.yaml import YAML

    assert YAML(typ="safe").load(as_yaml({"a": BIDI, BIDI: [INVISIBLE]})) == {"a": BIDI, BIDI: [INVISIBLE]}
    assert not set(BIDI) & set(as_yaml({"a": BIDI, BIDI: 1}))


def test_notification_survives_hostile_text(desk: Desk, tmp_path: Path) -> None:
    target = tmp_path / "told"
    desk.holdfast("config", "onEnd", f"printf '%s' \"$HOLDFAST_STATUS:$HOLDFAST_REASON\" > {target}")
    desk.script("import os; os.rmdir('outputs'); os.symlink('/x\\x1b]0;t\\x07\\u202e', 'outputs')")
    assert desk.submit("train.py").code == 74
    from conftest import eventually

    eventually(lambda: target.exists() and target.read_text().startswith("Completed:"))
    assert "link" in target.read_text()
    assert not set(BIDI + "\x1b\x07") & set(target.read_text())


def is_formula(cell: str) -> bool:
    """As a spreadsheet looks at it: blanks and what cannot be seen do not count."""
    kept = "".join(char for char in cell if char.isprintable() and not char.isspace())
    return kept[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20")


def at_terminal(desk: Desk, *words: str) -> str:
    """What the command writes to a terminal, streams together."""
    ours, theirs = pty.openpty()
    env = {**desk.env, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [HOLDFAST, *words], cwd=desk.project, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    process.wait(timeout=60)
    return shown.decode("utf-8", "replace")
