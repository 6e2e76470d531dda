"""The table of runs as text: columns, widths, the marked best, and what is left out on a narrow terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from holdfast.present.run_table import age, table

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z
FIRST: dict[str, Any] = {
    "run_id": "digits_1",
    "run_number": 1,
    "script_name": "train.py",
    "arguments": ["--lr", 0.1],
    "target": "local",
    "status": "Completed",
    "created_utc": "2023-11-14T22:10:20.123456+00:00",
    "duration": "1:02:03.500000",
    "accuracy": [0.5, 0.912345678],
    "val_loss": 0.25,
    "epochs": 10,
}
SECOND: dict[str, Any] = {
    **FIRST,
    "run_id": "digits_12",
    "run_number": 12,
    "status": "Failed",
    "start_time_utc": "2023-11-14T22:13:18+00:00",
    "created_utc": None,
    "duration": "0:00:07",
    "accuracy": 0.8,
    "val_loss": 0.5,
}
WIDE = """\
run  age          duration  status     target  script             accuracy   val_loss
  1  3 min ago  1 h 02 min  Completed  local   train.py --lr 0.1   0.91235*      0.25*
 12  just now       7.00 s  Failed     local   train.py --lr 0.1       0.8        0.5
* best of the last values
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    def shown(columns: int, *records: dict[str, Any], first: tuple[str, ...] = (), all_projects: bool = False) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        return table(records, Terminal(), NOW, all_projects=all_projects, first=first)

    return shown


def test_table_shows_differing_metrics_and_marks_the_best(shown: Any) -> None:
    assert shown(120, FIRST, SECOND) == WIDE
    assert shown(86, FIRST, SECOND) == WIDE  # the length of its longest line


def test_script_is_shortened_before_metrics_are_left_out(shown: Any) -> None:
    assert shown(85, FIRST, SECOND) == WIDE.replace("script ", "script").replace("--lr 0.1", "--lr 0…")
    without_loss = shown(84, FIRST, SECOND).splitlines()
    assert without_loss[1].endswith("  train.py --lr 0.1   0.91235*")
    assert without_loss[-1] == "* best of the last values; not shown: val_loss; --columns shows them"


@pytest.mark.parametrize(
    ("columns", "titles", "dropped"),
    [
        (74, "run age duration status target script accuracy", ""),
        (73, "run age duration status script accuracy", "target, val_loss"),
        (66, "run age duration status script accuracy", "target, val_loss"),
        (65, "run duration status script accuracy", "target, age, val_loss"),
        (55, "run duration status script accuracy", "target, age, val_loss"),
        (54, "run status script accuracy val_loss", "target, age, duration"),
        (53, "run status script accuracy", "target, age, duration, val_loss"),
        (43, "run status script accuracy", "target, age, duration, val_loss"),
        (42, "run status script", "target, age, duration, accuracy, val_loss"),
        (21, "run status scri…", ""),
        (12, "run status…", ""),
    ],
)
def test_narrow_terminal_drops_target_age_and_duration_before_the_first_metric(
    shown: Any, columns: int, titles: str, dropped: str
) -> None:
    lines = shown(columns, FIRST, SECOND).splitlines()
    assert lines[0].split() == titles.split()
    assert max(map(len, lines)) <= columns
    assert not dropped or f"not shown: {dropped}; --columns shows them" in " ".join(lines[3:])


def test_folders_of_a_script_are_left_out_before_it_is_cut(shown: Any) -> None:
    metrics = ("accuracy", "val_loss", "epochs")
    deep = {name: value for name, value in FIRST.items() if name not in metrics} | {"script_name": "code/deep/train.py"}
    assert shown(74, deep).splitlines()[1].endswith("  code/deep/train.py --lr 0.1")
    assert shown(73, deep).splitlines()[1].endswith("  …/train.py --lr 0.1")


def test_only_metrics_with_a_known_direction_have_a_best(shown: Any) -> None:
    lines = shown(120, {**FIRST, "lr": 1}, {**SECOND, "lr": 2}).splitlines()
    assert lines[0].split()[-3:] == ["accuracy", "val_loss", "lr"]
    assert lines[1].endswith("   1")


def test_named_metrics_come_first(shown: Any) -> None:
    title = shown(120, FIRST, SECOND, first=("val_loss", "none")).splitlines()[0]
    assert title.split()[-2:] == ["val_loss", "accuracy"]


def test_run_ids_are_shown_for_several_projects(shown: Any) -> None:
    title, first, second, _ = shown(120, FIRST, SECOND, all_projects=True).splitlines()
    assert title.startswith("run_id     age")
    assert (first[:11], second[:11]) == ("digits_1   ", "digits_12  ")


def test_metric_of_one_run_is_shown_without_a_mark(shown: Any) -> None:
    second = {name: value for name, value in SECOND.items() if name != "accuracy"}
    lines = shown(120, FIRST, {**second, "val_loss": 0.25, "recall": 2}).splitlines()
    assert lines[0].split()[-2:] == ["accuracy", "recall"]
    assert lines[1].endswith("   0.91235")
    assert lines[2].endswith("         2")
    assert len(lines) == 3


def test_booleans_and_tables_are_not_metrics(shown: Any) -> None:
    odd = {"flag": True, "empty": [], "table": {"a": 1}}
    lines = shown(120, {**FIRST, **odd}, {**SECOND, **odd, "flag": False}).splitlines()
    assert lines[0].split()[-2:] == ["accuracy", "val_loss"]


def test_value_that_is_not_finite_is_shown_and_never_the_best(shown: Any) -> None:
    lines = shown(120, {**FIRST, "val_loss": None}, {**SECOND, "val_loss": [0.1, 0.5]}, FIRST).splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["NaN/Inf", "0.5", "0.25*"]


def test_text_metric_is_left_aligned_and_clipped(shown: Any) -> None:
    lines = shown(150, {**FIRST, "note": "a" * 24}, {**SECOND, "note": "b" * 25}).splitlines()
    assert lines[1].endswith(f"  {'a' * 24}")
    assert lines[2].endswith(f"  {'b' * 23}…")
    assert lines[0].split()[-2:] == ["val_loss", "note"]
    assert lines[0].index("note") == lines[1].index("a" * 24)
    long_name = shown(150, {**FIRST, "n" * 30: 1}, {**SECOND, "n" * 30: 2}).splitlines()[0]
    assert long_name.endswith("n" * 30)


def test_names_of_metrics_that_do_not_fit_are_whole(shown: Any) -> None:
    names = [f"metric_{letter * 30}" for letter in "abcd"]
    lines = shown(60, {**FIRST, **dict.fromkeys(names, 1)}, {**SECOND, **dict.fromkeys(names, 2)}).splitlines()
    note = " ".join(lines[3:])
    assert [name for name in names if name not in note] == []
    assert max(map(len, lines)) <= 60


def test_field_is_named_where_its_heading_means_a_parameter_or_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    title = table([FIRST], Terminal(), NOW, all_projects=False, headings=("run", "script")).splitlines()[0]
    assert title.split()[:6] == ["run", "created_utc", "duration", "status", "target", "script"]


def test_author_is_shown_where_runs_of_several_users_are_listed(shown: Any) -> None:
    title, first, second = shown(150, {**FIRST, "user": "alice"}, {**SECOND, "user": "bob"}).splitlines()[:3]
    assert (title.split()[1], first.split()[1], second.split()[1]) == ("author", "alice", "bob")
    alone = shown(150, {**FIRST, "user": "alice"}, {**SECOND, "user": "alice"})
    assert "author" not in alone


def test_run_without_its_facts_has_empty_cells(shown: Any) -> None:
    lines = shown(120, {"run_number": 3, "status": None, "duration": "soon", "arguments": "x"}).splitlines()
    assert lines == ["run  age  duration  status  target  script", "  3                 None"]


def test_completed_run_with_missing_outputs_is_named(shown: Any) -> None:
    incomplete = {**FIRST, "outputs": {"complete": False}}
    assert "  outputs incomplete  " in shown(120, incomplete)
    assert "  Failed  " in shown(120, {**incomplete, "status": "Failed"})


def test_control_characters_are_shown_as_escapes(shown: Any) -> None:
    assert "a\\x1b[31mb" in shown(120, {**FIRST, "script_name": "a\x1b[31mb"})
    assert "t\\x07" in shown(120, {**FIRST, "target": "t\x07"})


def test_colours_mark_titles_states_and_the_best(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    states = ("Completed", "Failed", "Lost", "Running", "Queued")
    records = [{"run_number": number, "status": state, "loss": number} for number, state in enumerate(states)]
    title, *rows, note = shown(120, *records).splitlines()
    assert title.startswith("\x1b[2mrun\x1b[0m  \x1b[2mage\x1b[0m")
    assert [row.partition("\x1b[")[2][:2] for row in rows] == ["32", "31", "31", "36", "33"]
    assert rows[0].endswith("\x1b[1m   0*\x1b[0m")
    assert note == "\x1b[2m* best of the last values\x1b[0m"
    assert shown(14, *records).splitlines()[1] == "  0  \x1b[32mCompleted\x1b[0m"
    assert shown(13, *records).splitlines()[1] == "  0  Complet…"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        *((-3, "just now"), (4.9, "just now"), (5, "5 s ago"), (59.9, "59 s ago"), (60, "1 min ago")),
        *((3599, "59 min ago"), (3600, "1 h ago"), (86399, "23 h ago"), (86400, "1 day ago")),
        *((172799, "1 day ago"), (172800, "2 days ago")),
    ],
)
def test_age_uses_the_largest_unit(seconds: float, expected: str) -> None:
    assert age(seconds) == expected
