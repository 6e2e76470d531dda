"""Reading metrics files back: good ones, torn ones and lying ones."""

from __future__ import annotations

import json
import math
import os
import struct
from array import array
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.metrics import reader
from holdfast.metrics.values import Series

FLOAT, INT, BOOL, REFERRED = range(4)


def header(opened: int = 0, version: int = 1) -> bytes:
    return struct.pack("<8sIIQQQ24x", b"hfmetric", version, 32, 1, 2, opened)


def record(name: int, value: float, *, step: int = 0, time: int = 0, kind: int = FLOAT) -> bytes:
    form = "<QqQQ" if kind == REFERRED else "<QqQd"
    return struct.pack(form, name | kind << 56, step, time, value)


def write_pair(folder: Path, stem: str, records: bytes, lines: bytes, opened: int = 0) -> None:
    (folder / f"{stem}.m").write_bytes(header(opened) + records)
    (folder / f"{stem}.jsonl").write_bytes(lines)


X = b'{"name": "x"}\n'
Y = b'{"name": "y"}\n'
Y_OFFSET = len(X)


def values_of(found: reader.Metrics, name: str) -> list[reader.Value]:
    return list(found.by_name[name].values)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert reader.read_dir(str(tmp_path / "none")) == reader.Metrics({}, ())


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert reader.read_dir(str(tmp_path / "file")).problems == (f"{tmp_path}/file: Not a directory",)


def test_series_are_in_order_of_first_appearance(tmp_path: Path) -> None:
    records = record(Y_OFFSET, 1.0, step=5) + record(0, 2.0) + record(Y_OFFSET, 3.0, step=-6, time=7)
    write_pair(tmp_path, "1-0", records, X + Y)
    found = reader.read_dir(str(tmp_path))
    assert list(found.by_name) == ["y", "x"]
    y = found.by_name["y"]
    assert (y.name, list(y.steps), list(y.times), list(y.values)) == ("y", [5, -6], [0, 7], [1.0, 3.0])
    assert found.problems == ()


@pytest.mark.parametrize("rounds", [1, 2])
def test_only_so_many_names_of_a_run_are_read_and_the_rest_is_told(tmp_path: Path, rounds: int) -> None:
    """In order of appearance, over all files; a name that was taken keeps all of its values."""
    names = [b'{"name": "%07d"}\n' % number for number in range(reader.MOST_NAMES + 500)]
    records = b"".join(record(number * len(names[0]), number) for number in range(len(names)))
    write_pair(tmp_path, "1-0", records * rounds, b"".join(names), opened=1)
    write_pair(tmp_path, "2-0", record(0, 1.0) + record(len(X), 9.0), X + names[0], opened=2)
    found = reader.read_dir(str(tmp_path))
    assert list(found.by_name) == [f"{number:07d}" for number in range(reader.MOST_NAMES)]
    assert values_of(found, "0000000") == [0.0] * rounds + [9.0]
    assert found.problems == (f"{tmp_path}: more than {reader.MOST_NAMES} metrics; the others are not shown",)


def test_only_so_many_parameters_of_a_run_are_read(tmp_path: Path) -> None:
    lines = b"".join(b'{"parameter": "p%d", "value": 1}\n' % number for number in range(reader.MOST_NAMES + 1))
    write_pair(tmp_path, "1-0", b"", lines)
    assert len(reader.read_dir(str(tmp_path)).parameters) == reader.MOST_NAMES


@pytest.mark.parametrize("rounds", [1, 3, 40_000])
def test_names_logged_in_turn_keep_their_values_apart(tmp_path: Path, rounds: int) -> None:
    records = b"".join(record(0, i, step=i) + record(Y_OFFSET, -i, step=i, kind=INT) for i in range(rounds))
    write_pair(tmp_path, "1-0", records, X + Y)
    found = reader.read_dir(str(tmp_path))
    assert values_of(found, "x") == [float(i) for i in range(rounds)]
    assert values_of(found, "y") == [-i for i in range(rounds)]
    assert list(found.by_name["y"].steps) == list(range(rounds))


def test_a_name_of_several_kinds_keeps_its_order(tmp_path: Path) -> None:
    records = [record(0, 0, kind=INT), record(0, 0.5), record(0, 1, kind=BOOL), record(0, 14, kind=REFERRED)]
    write_pair(tmp_path, "1-0", b"".join(records * 2), X + b'{"type": "list", "value": [1, null]}\n')
    values = values_of(reader.read_dir(str(tmp_path)), "x")
    assert values == [0, 0.5, True, [1, None]] * 2
    assert [type(value) for value in values[:3]] == [int, float, bool]


@given(kinds=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([FLOAT, INT, BOOL])), max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_names_and_kinds_is_read_as_one_by_one(tmp_path: Path, kinds: list[tuple[int, int]]) -> None:
    lines = [b'{"name": "%d"}\n' % number for number in range(4)]
    records = b"".join(
        record(number * len(lines[0]), step % 2, step=step, kind=kind) for step, (number, kind) in enumerate(kinds)
    )
    write_pair(tmp_path, "1-0", records, b"".join(lines))
    expected: dict[str, list[tuple[int, reader.Value]]] = {}
    for step, (number, kind) in enumerate(kinds):
        expected.setdefault(str(number), []).append((step, (float, int, bool)[kind](step % 2)))
    found = reader.read_dir(str(tmp_path)).by_name
    assert list(found) == list(expected)
    for name, points in expected.items():
        assert list(zip(found[name].steps, found[name].values, strict=True)) == points
        assert [type(value) for value in found[name].values] == [type(value) for _, value in points]


def test_files_are_merged_by_time_and_equal_times_by_age_of_file(tmp_path: Path) -> None:
    write_pair(tmp_path, "9-0", record(0, 1.0, time=10) + record(0, 3.0, time=30), X, opened=1)
    write_pair(tmp_path, "10-0", record(Y_OFFSET, 2.0, time=20) + record(Y_OFFSET, 4.0, time=30), Y + X, opened=2)
    merged = reader.read_dir(str(tmp_path)).by_name["x"]
    assert merged.values == array("d", [1, 2, 3, 4])
    assert list(merged.times) == [10, 20, 30, 30]


def test_a_clock_set_back_does_not_reorder_a_file(tmp_path: Path) -> None:
    write_pair(tmp_path, "1-0", b"".join(record(0, i, time=time) for i, time in enumerate([50, 10, 60])), X, opened=1)
    write_pair(tmp_path, "2-0", record(0, 9, time=55, kind=INT), X, opened=2)
    assert values_of(reader.read_dir(str(tmp_path)), "x") == [0, 1, 9, 2]


def test_one_bad_file_hides_no_other(tmp_path: Path) -> None:
    write_pair(tmp_path, "1-0", record(0, 1.5), X)
    (tmp_path / "2-0.m").write_bytes(b"")
    (tmp_path / "3-0.m").write_bytes(header()[:40])
    (tmp_path / "4-0.m").write_bytes(os.urandom(500))
    (tmp_path / "5-0.m").write_bytes(header() + record(0, 1.0))
    (tmp_path / "6-0.m").mkdir()
    os.mkfifo(tmp_path / "7-0.m")
    (tmp_path / "8-0.m").symlink_to(tmp_path / "1-0.m")
    (tmp_path / "9-0.m").write_bytes(header(version=2))
    (tmp_path / "notes.txt").write_text("not ours")
    found = reader.read_dir(str(tmp_path))
    assert {name: values_of(found, name) for name in found.by_name} == {"x": [1.5]}
    told = [problem.removeprefix(f"{tmp_path}/") for problem in found.problems]
    assert [problem[:4] for problem in told] == ["3-0.", "4-0.", "5-0.", "6-0.", "7-0.", "8-0.", "9-0."]
    assert told[2].startswith("5-0.jsonl: No such file or directory")
    assert told[6] == "9-0.m: format 2 is of a newer Holdfast"


def test_a_torn_tail_costs_only_itself(tmp_path: Path) -> None:
    whole = record(0, 1.0) + record(Y_OFFSET, 2.0)
    torn_line = b'{"type": "str", "val'
    write_pair(tmp_path, "1-0", whole + record(0, 28, kind=REFERRED) + b"\x01" * 31, X + Y + torn_line)
    found = reader.read_dir(str(tmp_path))
    assert values_of(found, "x") == [1.0, None]
    assert values_of(found, "y") == [2.0]
    assert found.problems == (
        f"{tmp_path}/1-0.m: ends within a record; its last 31 bytes are ignored",
        f"{tmp_path}/1-0.m: 1 values that are not numbers are damaged and shown as null",
    )


def test_unknown_kinds_and_nameless_values_are_left_out_and_counted(tmp_path: Path) -> None:
    reserved_bit = 0x40
    records = [
        record(0, 1.0),
        record(0, 2.0, kind=9),
        record(0, 3.0, kind=reserved_bit),
        record(5, 4.0),
        record(2**55, 5),
    ]
    write_pair(tmp_path, "1-0", b"".join(records), X)
    found = reader.read_dir(str(tmp_path))
    assert {name: values_of(found, name) for name in found.by_name} == {"x": [1.0, 3.0]}
    assert found.problems == (
        f"{tmp_path}/1-0.m: 1 values are of a kind only a newer Holdfast can read",
        f"{tmp_path}/1-0.m: 2 values have no readable name",
    )


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"value": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"value": ' + b"9" * 9000 + b"}",
        b"\xff\x00",
        b"7",
    ],
    ids=["endless", "deep", "long number", "no text", "no object"],
)
def test_a_hostile_line_is_null(tmp_path: Path, line: bytes) -> None:
    write_pair(tmp_path, "1-0", record(0, Y_OFFSET, kind=REFERRED), X + line + b"\n")
    found = reader.read_dir(str(tmp_path))
    assert reader.summary(found) == {"x": None}
    assert len(found.problems) == 1


def test_half_a_surrogate_pair_does_not_come_through(tmp_path: Path) -> None:
    write_pair(tmp_path, "1-0", record(0, 1.0), b'{"name": "a\\udc80b"}\n')
    found = reader.read_dir(str(tmp_path))
    assert list(found.by_name) == ["a?b"]


@given(st.binary(max_size=400), st.binary(max_size=100))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_make_it_raise(tmp_path: Path, records: bytes, lines: bytes) -> None:
    write_pair(tmp_path, "1-0", records, X + lines)
    found = reader.read_dir(str(tmp_path))
    json.dumps(reader.summary(found), allow_nan=False)
    assert all(reader.digest(series).points == len(series.values) for series in found.by_name.values())


def test_summary_is_what_history_shows(tmp_path: Path) -> None:
    table = b'{"type": "dict", "value": {"a": [1.5, NaN, -Infinity]}}\n'
    names = [b'{"name": "%s"}\n' % name for name in (b"once", b"some", b"many", b"nan_", b"tabl")]
    once, some, many, nan, tabl = range(0, 5 * len(names[0]), len(names[0]))
    records = [
        record(once, 0.5),
        *(record(some, value) for value in (1.0, math.inf, 3.0)),
        *(record(many, step, kind=INT) for step in range(1001)),
        record(nan, math.nan),
        record(tabl, 5 * len(names[0]), kind=REFERRED),
    ]
    write_pair(tmp_path, "1-0", b"".join(records), b"".join(names) + table)
    found = reader.read_dir(str(tmp_path))
    assert reader.summary(found) == {
        "once": 0.5,
        "some": [1.0, None, 3.0],
        "many": 1000,
        "nan_": None,
        "tabl": {"a": [1.5, None, None]},
    }
    assert values_of(found, "some")[1] == math.inf


def test_exactly_a_thousand_points_are_a_list(tmp_path: Path) -> None:
    write_pair(tmp_path, "1-0", record(0, 1.0) * 1000, X)
    assert reader.summary(reader.read_dir(str(tmp_path)))["x"] == [1.0] * 1000


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([2.0, -1.0, 5.0], -1.0, 5.0),
        ([math.nan, 2.0, math.inf, 1.0], 1.0, 2.0),
        ([math.nan], None, None),
        (["text", True, None], None, None),
        ([3, 0.5, "text", 2**60], 0.5, 2**60),
    ],
)
def test_a_digest_has_the_extremes_of_finite_numbers(
    values: list[reader.Value], least: float | None, greatest: float | None
) -> None:
    floats = array("d", values) if all(type(value) is float for value in values) else None  # type: ignore[type-var]
    steps = array("q", range(3, 3 + len(values)))
    found = reader.digest(Series("x", steps, steps, values if floats is None else floats))
    last = reader.json_value(values[-1])
    assert found == reader.Digest("x", len(values), last, least, greatest, 3, 2 + len(values))
