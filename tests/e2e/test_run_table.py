"""``history list`` and ``runs`` at a terminal: a table for people that fits its width."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from at_terminal import at_terminal
from conftest import Desk
from holdfast.model import Json
from holdfast.present.run_table import age, table

SCRIPT = """
import sys, holdfast
rate = float(sys.argv[2])
holdfast.log("accuracy", 0.9 + rate / 10)
holdfast.log("val_loss", rate)
holdfast.log("epochs", 10)
sys.exit(3 if rate > 0.25 else 0)
"""
COLOUR = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk(tmp_path_factory.mktemp("runs"))
    desk.script(SCRIPT)
    for rate in ("0.1", "0.2", "0.3"):
        desk.submit("train.py", "--lr", rate, "--optimizer", "adam")
    return desk


def test_terminal_shows_age_duration_arguments_and_best_metrics(runs: Desk) -> None:
    title, *rows, note = at_terminal(runs, 120, "runs", NO_COLOR="1")
    assert title.split() == ["run", "age", "duration", "status", "target", "script", "accuracy", "val_loss"]
    cells = [re.split(r" {2,}", row.strip()) for row in rows]
    assert [row[0] for row in cells] == ["3", "2", "1"]
    assert all(row[1].endswith("ago") or row[1] == "just now" for row in cells)
    assert all(row[2].endswith(" s") for row in cells)
    assert [row[3] for row in cells] == ["Failed", "Completed", "Completed"]
    assert [row[5] for row in cells] == [f"train.py --lr {rate} --optimizer adam" for rate in ("0.3", "0.2", "0.1")]
    assert [row[6:] for row in cells] == [["0.93*", "0.3"], ["0.92", "0.2"], ["0.91", "0.1*"]]
    assert note == "* best of the last values"
    assert at_terminal(runs, 120, "history", "list", NO_COLOR="1")[0] == title


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_table_fits_the_terminal(runs: Desk, columns: int) -> None:
    lines = at_terminal(runs, columns, "runs")
    assert len(lines) >= 4
    assert max(len(COLOUR.sub("", line)) for line in lines) <= columns
    plain = [COLOUR.sub("", line) for line in lines]
    assert [line.split()[0] for line in plain[1:4]] == ["3", "2", "1"]
    if columns == 60:
        assert plain[0].split()[-1] == "accuracy"
        assert "not shown: target, age, val_loss; --columns shows them" in " ".join(line.strip() for line in plain[4:])


def test_colour_only_at_a_terminal_that_wants_it(runs: Desk) -> None:
    assert COLOUR.search("".join(at_terminal(runs, 80, "runs")))
    assert not COLOUR.search("".join(at_terminal(runs, 80, "runs", NO_COLOR="1")))
    assert "\x1b" not in runs.holdfast("runs", "-o", "table").text


def test_sorted_metric_comes_first(runs: Desk) -> None:
    assert at_terminal(runs, 120, "runs", "--sort", "-val_loss", NO_COLOR="1")[0].split()[-2:] == [
        "val_loss",
        "accuracy",
    ]


def test_original_columns_stay_for_formats_and_for_the_az_commands(runs: Desk) -> None:
    original = "Accuracy Duration Epochs Run_id Run_number Script_name Start_time_utc Status Target Val_loss"
    assert at_terminal(runs, 200, "ml", "history", "list")[0].split() == original.split()
    assert at_terminal(runs, 200, "runs", "-o", "table")[0].split() == original.lower().split()
    assert runs.holdfast("runs", "-o", "table").text.split()[:10] == original.lower().split()
    assert [record["run_number"] for record in runs.holdfast("runs").json] == [3, 2, 1]


def test_every_heading_is_the_name_to_type(runs: Desk) -> None:
    """The table for people, of one project and of all; ``-o table``; CSV, whose nested values can only be shown."""
    tables = [at_terminal(runs, 200, *words, NO_COLOR="1")[0].split() for words in (("runs",), ("runs", "--all"))]
    tables.append(runs.holdfast("runs", "-o", "table").text.splitlines()[0].split())
    headings = {heading for table in tables for heading in table}
    assert {"run", "age", "script", "run_id", "run_number", "val_loss"} <= headings
    order = ",".join(sorted(headings))
    for words in (("--columns", order), ("--sort", order), ("--sort", f"-{order}")):
        result = runs.holdfast("runs", *words, "-o", "table")
        assert (result.code, result.err) == (0, ""), result
    assert runs.holdfast("runs", "--columns", order, "-o", "table").text.splitlines()[0].split() == order.split(",")
    where = " and ".join(f"{heading} is not null" for heading in sorted(headings))
    assert [row["run_number"] for row in runs.holdfast("runs", "--where", where).json] == [3, 2, 1]
    csv = runs.holdfast("runs", "-o", "csv").text.splitlines()[0]
    again = runs.holdfast("runs", "-o", "csv", "--columns", csv)
    assert (again.code, again.text.splitlines()[0]) == (0, csv)
    assert runs.holdfast("runs", "--columns", "tags,program").json == [
        {name: record[name] for name in ("tags", "program")} for record in runs.holdfast("runs").json
    ]


def test_headings_that_are_not_fields_can_be_compared(runs: Desk) -> None:
    where = "run >= 2 and script = 'train.py' and age < '1h' and age >= 0"
    rows = runs.holdfast("runs", "--where", where, "--sort", "age", "--columns", "run,script").json
    assert rows == [{"run": 3, "script": "train.py"}, {"run": 2, "script": "train.py"}]


def test_parameter_keeps_the_name_of_a_heading(desk: Desk) -> None:
    desk.script(
        "import holdfast\nholdfast.log('run', 7)\nholdfast.log('val loss, (mean)', 1)\nholdfast.log('top 5%', 2)"
    )
    assert desk.submit("train.py", "--age", "30").code == 0
    assert desk.holdfast("runs", "--where", "age = 30", "--columns", "age,run").json == [{"age": 30, "run": 7}]
    title = at_terminal(desk, 200, "runs", NO_COLOR="1")[0].split()
    assert title[:2] == ["run_number", "created_utc"]
    assert "script" in title
    odd = desk.holdfast("runs", "--columns", "top 5%, `val loss, (mean)`", "--sort", "-top 5%")
    assert odd.json == [{"top 5%": 2, "val loss, (mean)": 1}]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-5, "just now"), (4.9, "just now"), (42, "42 s ago"), (200, "3 min ago"), (3599, "59 min ago")),
        *((7200, "2 h ago"), (86400, "1 day ago"), (40 * 86400, "40 days ago")),
    ],
)
def test_age_is_written_in_its_largest_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_series_shows_its_last_value(desk: Desk) -> None:
    desk.script("import sys, holdfast\nfor step in (3, 2, 1): holdfast.log('loss', step * float(sys.argv[1]))")
    for rate in ("0.1", "0.2"):
        assert desk.submit("train.py", rate).code == 0
    title, *rows = at_terminal(desk, 120, "runs", NO_COLOR="1")[:3]
    assert title.split()[-1] == "loss"
    assert [row.split()[-1] for row in rows] == ["0.2", "0.1*"]


def test_only_metrics_whose_best_is_known_are_marked() -> None:
    records: list[Json] = [{"run_number": number, "acc": number / 10, "lr": number / 100} for number in (1, 2)]
    lines = table(records, io.StringIO(), 0.0, all_projects=False).splitlines()
    assert [line.split()[-2:] for line in lines[:3]] == [["acc", "lr"], ["0.1", "0.01"], ["0.2*", "0.02"]]


def test_script_keeps_its_name_where_its_folders_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    script = "src/very/long/path/to/the/train.py"
    records: list[Json] = [{"run_number": 1, "script_name": script, "arguments": ["--lr", "0.1"]}]
    written = table(records, io.StringIO(), 0.0, all_projects=False)
    assert "…/train.py --lr 0.1" in written


def test_metrics_with_a_best_value_come_first() -> None:
    records: list[Json] = [{"run_number": n, "batch": n, "lr": n, "val_loss": n} for n in (1, 2)]
    title = table(records, io.StringIO(), 0.0, all_projects=False).splitlines()[0]
    assert title.split()[-3:] == ["val_loss", "batch", "lr"]


def test_info_fits_the_terminal(desk: Desk) -> None:
    """Long reasons, notes, tags and metric names are broken or cut; only a word that is too wide stays whole."""
    desk.script(
        "import holdfast, sys\n"
        "for step in range(30):\n"
        "    holdfast.log('validation/loss/of-the-second-stage/averaged-over-all-folds', 1 / (step + 1))\n"
        "sys.exit(3)\n"
    )
    desk.submit("train.py", *(f"--argument-{number}=value" for number in range(9)))
    assert desk.holdfast("history", "note", "-r", "1", "word " * 40).code == 0
    for columns in (80, 60):
        lines = at_terminal(desk, columns, "info", "-r", "1", NO_COLOR="1")
        wide = [line for line in lines if len(line) > columns]
        assert [line.split()[-1] for line in wide] == [str(desk.home / "runs" / desk.record()["uid"])] * len(wide), wide
    shown = " ".join(" ".join(lines).split())
    assert "--argument-0=value --argument-1=value" in shown
    assert ("word " * 40).strip() in shown


def test_progress_line_is_cleared_before_the_run_id(desk: Desk) -> None:
    """By a clock that runs fast the second after which progress is shown is soon over."""
    libraries = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), *Path("/usr/lib").glob("faketime/*.so.1")]
    if not libraries:
        pytest.skip("NOT TESTED: libfaketime speeds up the clock")
    for number in range(6000):
        (desk.project / f"file{number}").write_text(str(number))
    desk.script("print(1)")
    lines = at_terminal(desk, 80, "submit", "-c", "local", "train.py", LD_PRELOAD=str(libraries[0]), FAKETIME="+0 x20")
    run_id = next(number for number, line in enumerate(lines) if "RunId: " in line)
    assert lines[run_id - 1].startswith("\x1b[Kstoring the project: "), lines
    assert lines[run_id].startswith("\x1b[KRunId: "), lines


def test_values_that_are_not_finite_are_shown_as_such_and_unnamed_metrics_are_not() -> None:
    records: list[Json] = [{"run_number": 1, "loss": None, "": 1.5}, {"run_number": 2, "loss": 0.5, " ": 2.5}]
    written = table(records, io.StringIO(), 0.0, all_projects=False)
    assert "NaN/Inf" in written
    assert "1.5" not in written
    assert "2.5" not in written


@pytest.mark.parametrize("words", ["metrics -r 1", "config", "env list", "store prune", "compare -r 1 -r 2"])
def test_titles_of_tables_are_the_names_that_a_query_needs(runs: Desk, words: str) -> None:
    titles = runs.holdfast(*words.split(), "-o", "table").text.splitlines()[:1]
    assert [title for title in titles if title != title.lower()] == []


def test_chosen_times_have_a_unit_in_tables_and_are_seconds_elsewhere(runs: Desk) -> None:
    chosen = ("runs", "--columns", "age,duration")
    for lines in (at_terminal(runs, 80, *chosen), runs.holdfast(*chosen, "-o", "table").text.splitlines()):
        assert len(lines) == 5
        assert all(re.search(r"(s|min|h)  +[\d.]+ (s|min)", line) for line in lines[2:])
    assert all(isinstance(row["duration"], float) for row in runs.holdfast(*chosen).json)


def test_settings_at_a_narrow_terminal_are_explained_in_full(runs: Desk) -> None:
    lines = at_terminal(runs, 60, "config", HOLDFAST_PAGER="cat")
    assert not [line for line in lines if "\u2026" in line or len(line) > 60]
    text = " ".join(" ".join(lines).split())
    assert all(row["what"] in text for row in runs.holdfast("config").json)
