"""The language of --where and --sort: what it means, how mistakes are shown, and that no text becomes SQL."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.store.home import Home
from holdfast.store.index import columns
from holdfast.store.index.index import Index
from holdfast.store.index.select import Wish, select, uids
from holdfast.store.where import sql
from holdfast.store.where.fields import FIELDS
from holdfast.store.where.grammar import DEEPEST, read_names, read_sort, read_where
from holdfast.store.where.tokens import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROJECT = "3bf5de88-dbb3-8d8f-e850-96118358cff0"
RUNS: list[dict[str, object]] = [
    {"target": "local", "arguments": ["--lr", "0.1", "--fast"], "Accuracy": [0.5, 0.95], "loss": [3.0, 1.0, 2.0]},
    {"target": "lab1", "arguments": ["--lr=0.01", "--optimizer", "adam"], "Accuracy": [0.9], "odd name": [1.0]},
    {"target": "lab1", "arguments": ["lr=big", "--fast", "false", "--like", "3"], "loss": [0.25], "status": [7.0]},
    {"target": "lab2", "arguments": ["it's", "--quote", "o'hara"], "git": {"commit": "abc", "dirty": True}},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    place = tmp_path_factory.mktemp("store")
    for number, run in enumerate(RUNS, start=1):
        write_run(place, number, run)
    found = Index(Home(str(place), "0" * 32))
    yield found
    found.close()


def write_run(place: Path, number: int, run: dict[str, object]) -> None:
    """One that took two hours for each of its number; the third failed."""
    attempt = place / "runs" / f"{number:032x}" / "a1"
    (attempt / "metrics").mkdir(parents=True)
    request = {"uid": attempt.parent.name, "run_id": f"digits_{number}", "run_number": number, "project_id": PROJECT}
    request |= {"script": "train.py", "user": "ada", "created_ns": 1_790_000_000_000_000_000 + number}
    request |= {key: value for key, value in run.items() if key in ("target", "arguments", "git")}
    (attempt.parent / "run.json").write_text(json.dumps(request))
    (attempt.parent / "client.jsonl").write_text(json.dumps({"type": "tags", "tags": {"team": f"t{number}"}}) + "\n")
    (attempt / "plan.json").write_text(json.dumps({"environment": {"key": f"env{number}"}}))
    end = 7200 * number
    closed: dict[str, object] = {
        "type": "closed",
        "outcome": "failed" if number == 3 else "completed",
        "exit_code": int(number == 3),
    }
    events: list[tuple[dict[str, object], int]] = [
        ({"type": "accepted", "host": "h"}, 0),
        ({"type": "started"}, 0),
        ({"type": "exited"}, end),
        (closed, end),
    ]
    moments = [{**event, "wall_ns": at * 10**9, "mono_ns": at * 10**9, "boot_id": "b"} for event, at in events]
    (attempt / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in moments))
    lines, records = b"", b""
    for name in run.keys() - {"target", "arguments", "git"}:
        points = cast("list[float]", run[name])
        records += b"".join(struct.pack("<QqQd", len(lines), at, at, value) for at, value in enumerate(points))
        lines += json.dumps({"name": name}).encode() + b"\n"
    (attempt / "metrics" / "1-0.jsonl").write_bytes(lines)
    (attempt / "metrics" / "1-0.m").write_bytes(struct.pack("<8sIIQQQ24x", b"hfmetric", 1, 32, 1, 1, 1) + records)


def numbers(index: Index, where: str | None = None, sort: str | None = None, limit: int | None = None) -> list[object]:
    found, _ = select(index, Wish(PROJECT, where, sort, limit))
    assert found == select(index, Wish(None, where, sort, limit))[0], "all runs are of this project"
    return [record["run_number"] for record in found]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("Accuracy > 0.9", [1]),
        ("Accuracy >= 0.9", [2, 1]),
        ("Accuracy < 0.95", [2]),
        ("Accuracy <= .95", [2, 1]),
        ("Accuracy = 0.9", [2]),
        ("Accuracy != 0.9", [1]),
        ("not Accuracy > 0.9", [4, 3, 2]),
        ("Accuracy is null", [4, 3]),
        ("Accuracy is not null", [2, 1]),
        ("Accuracy.min = 0.5", [1]),
        ("Accuracy.max >= 0.9 and Accuracy.points = 1", [2]),
        ("loss.best < 1", [3]),
        ("loss.best = 1", [1]),
        ("loss.last = 2", [1]),
        ("loss.max = 3 or loss = 0.25", [3, 1]),
        ("metrics.status = 7", [3]),
        ("status = 'Failed'", [3]),
        ('status = "Failed"', [3]),
        ("metrics.nothing > 1", []),
        ("params.nothing is null and run_number > 3", [4]),
        ("lr > 0.05", [1]),
        ("lr < 0.05", [2]),
        ("lr >= 'a'", [3]),
        ("lr < 'z'", [3]),
        ("params.lr = 'big'", [3]),
        ("fast = true", [1]),
        ("fast = false", [3]),
        ("optimizer like 'AD%'", [2]),
        ("optimizer ~ 'ad*'", [2]),
        ("optimizer ~ 'AD*'", []),
        ("not optimizer ~ 'ad*' and target = 'lab1'", [3]),
        ("optimizer not like 'a%'", [4, 3, 1]),
        ("target in ('local', 'lab2')", [4, 1]),
        ("target not in ('local', 'lab2')", [3, 2]),
        ("run_number in (1, 3) and exit_code = 1", [3]),
        ("`odd name` = 1", [2]),
        ('"odd name" = 1', [2]),
        ("`like` = 3", [3]),
        ("quote = 'o''hara'", [4]),
        ("arguments like '%it''s%'", [4]),
        ("duration > '3h' and duration < 20000", [2]),
        ("duration = 7200", [1]),
        ("commit = 'abc' and dirty = true", [4]),
        ("environment = 'env2'", [2]),
        ("tags.team = 't3'", [3]),
        ("created_utc < '2000'", []),
        ("target = 'local' or target = 'lab1' and Accuracy > 0", [2, 1]),
        ("(target = 'local' or target = 'lab1') and loss > 0", [3, 1]),
        ("NOT (target = 'local' OR loss > 0)", [4, 2]),
        ("run_number > 9007199254740993", []),
        ("host = 'h' and user = 'ada' and script_name = 'train.py'", [4, 3, 2, 1]),
    ],
)
def test_conditions(index: Index, where: str, found: list[int]) -> None:
    assert numbers(index, where) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("Accuracy", [2, 1, 4, 3]),
        ("-Accuracy", [1, 2, 4, 3]),
        ("-target,run_number", [1, 4, 2, 3]),
        ("target,-run_number", [3, 2, 4, 1]),
        ("loss.min", [3, 1, 4, 2]),
        ("-`odd name`, run_number", [2, 1, 3, 4]),
        ("-duration", [4, 3, 2, 1]),
        ("metrics.nothing", [4, 3, 2, 1]),
    ],
)
def test_orders(index: Index, sort: str, found: list[int]) -> None:
    assert numbers(index, None, sort) == found
    assert numbers(index, None, sort, 2) == found[:2]
    assert numbers(index, None, sort, 0) == []


def test_columns_are_as_asked_for(index: Index) -> None:
    names = "run_number,lr,fast,Accuracy,Accuracy.best,loss.best,dirty,params.none,tags.team,`odd name`"
    found, titles = select(index, Wish(PROJECT, sort="run_number", columns=names))
    assert titles == [*names.split(",")[:-1], "odd name"]
    rows = [list(row.values()) for row in found]
    assert rows[0] == [1, 0.1, True, 0.95, 0.95, 1.0, None, None, "t1", None]
    assert rows[1] == [2, 0.01, None, 0.9, 0.9, None, None, None, "t2", 1.0]
    assert rows[2] == [3, "big", False, None, None, 0.25, None, None, "t3", None]
    assert rows[3][6] is True


def test_every_field_can_be_asked_for(index: Index) -> None:
    for name in FIELDS:
        select(index, Wish(PROJECT, f"{name} is not null", f"-{name}", 1, name))


@pytest.mark.parametrize(
    ("where", "what", "at"),
    [
        ("", "expected the name of a field", 0),
        ("Accuracy", "expected =, !=", 8),
        ("Accuracy >", "expected a number", 10),
        ("Accuracy > lab1", "expected a number", 11),
        ("Accuracy > 0.9 target", "expected and, or or the end", 15),
        ("(Accuracy > 0.9", "expected )", 15),
        ("Accuracy = null", "expected a number", 11),
        ("Accurcy > 0.9", "no run has a field, parameter or metric 'Accurcy'", 0),
        ("Accuracy > 0.9; drop", "unexpected ';'", 14),
        ("target = 'lab1", "unclosed '", 9),
        ("target in ()", "expected a number", 11),
        ("target in ('a' 'b')", "expected )", 15),
        ("duration > 'soon'", "this is not a duration", 11),
        ("run_number = 'one'", "run_number is a number", 13),
        ("dirty = 'yes'", "dirty is true or false", 8),
        ("lr > 1.2.3", "this is not a number", 5),
        ("lr > 1e999", "this number is too large", 5),
        ("lr like 3", "expected a pattern", 8),
        ("lr like '" + "%" * 201 + "'", "this pattern is longer", 8),
    ],
)
def test_mistakes_are_marked(index: Index, where: str, what: str, at: int) -> None:
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, where))
    error = caught.value
    assert error.what.startswith(what)
    assert error.where == "--where"
    text, mark = error.answer.split("\n")
    assert text.startswith(where[:40])
    assert mark == " " * at + "^"


def test_near_names_are_offered(index: Index) -> None:
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, "accurcy > 0.9"))
    assert "Accuracy" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, "target = lab1"))
    assert "'lab1'" in caught.value.hint


def test_a_mistake_far_away_is_shown_with_its_surroundings(index: Index) -> None:
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, "Accuracy > 0 and " * 50 + "漢字 > ?"))
    text, mark = caught.value.answer.split("\n")
    assert len(text) < 140
    assert text.startswith("...")
    assert text[len(mark) - 1 - 2 :] == "?"  # two letters are two columns wide


@pytest.mark.parametrize(
    "where",
    [
        "(" * (DEEPEST + 1) + "lr = 1" + ")" * (DEEPEST + 1),
        "not " * (DEEPEST + 1) + "lr = 1",
        " or ".join(["lr = 1"] * 201),
        f"lr in ({', '.join('1' * 401)})",
        "lr = 1 or " * (LONGEST // 10) + "lr = 1",
        "(" * 3999,
    ],
)
def test_limits(index: Index, where: str) -> None:
    with pytest.raises(UsageError):
        select(index, Wish(PROJECT, where))


def test_all_limits_at_once_still_run(index: Index) -> None:
    deep = "(" * DEEPEST + "lr = 1" + ")" * DEEPEST
    numbers(index, "not " * DEEPEST + "lr = 1")
    numbers(index, " or ".join([deep, *["duration<'2h'"] * 150]))
    numbers(index, f"lr in ({', '.join('1' * 390)})")


def test_more_names_than_sqlite_joins(tmp_path: Path) -> None:
    words = [f"--p{number}={number}" for number in range(90)]
    write_run(tmp_path, 1, {"arguments": words})
    index = Index(Home(str(tmp_path), "0" * 32))
    everything = " and ".join(f"p{number} = {number}" for number in range(90))
    assert numbers(index, everything) == [1]
    assert numbers(index, everything.replace("p89 = 89", "p89 = 0")) == []
    most = ",".join(f"p{number}" for number in range(74, 90))
    assert numbers(index, everything, most) == [1]
    with pytest.raises(UsageError):
        numbers(index, None, f"p0,{most}")
    index.close()


INJECTIONS = [
    "'; DROP TABLE runs; --",
    "1) OR 1=1 --",
    "lr = 1 UNION SELECT uid FROM runs",
    "lr = '1' OR '1'='1'",
    '`lr" FROM runs; --` = 1',
    "`r.id = r.id` = 1",
    '"uid"" OR 1=1 --" = 1',
    "metrics.`x` = 1",
    "`metrics.x' OR 1=1 --` is null",
    "lr = 1 /* */",
    "lr = ?",
    "lr = :name",
    "lr = load_extension('x')",
    "runs.uid = 'x'",
    "uid = char(65)",
    "lr like '%' escape 'x'",
    "target = 'x\0y'",
    "target = '\ud800'",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_injections_find_nothing_and_change_nothing(index: Index, text: str) -> None:
    before = numbers(index)
    for wish in (Wish(PROJECT, text), Wish(PROJECT, sort=text), Wish(PROJECT, columns=text)):
        try:
            found, _ = select(index, wish)
        except UsageError:
            continue
        assert found == [] or wish.where != text or "is null" in text
    assert numbers(index) == before == [4, 3, 2, 1]


WORDS = st.sampled_from(
    (
        *(
            "and",
            "or",
            "not",
            "in",
            "like",
            "is",
            "null",
            "true",
            "lr",
            "Accuracy.max",
            "duration",
            "'2h'",
            "''",
            "0.9",
        ),
        *("-1e3", "<=", "`odd name`", "target", "'lab1'", "metrics.x", "tags.team", "\0", "漢", "?"),
        *"()=<>~,-'\"`; ",
    )
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join), st.lists(WORDS).map("".join)))
@example("lr in (1,'a',true)")
@example("\ud800")
@example("`\ud800` = 1")
@example("١ = ١")
@example("lr = ١")
def test_random_text_is_a_mistake_or_a_query_that_runs(index: Index, text: str) -> None:
    for wish in (Wish(PROJECT, text), Wish(PROJECT, sort=text), Wish(None, columns=text)):
        with contextlib.suppress(UsageError):
            select(index, wish)


def mistake(text: str) -> tuple[str, str, str]:
    with pytest.raises(UsageError) as caught:
        read_where(text)
    shown, _, mark = caught.value.answer.partition("\n")
    return caught.value.what, shown, mark


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("lr = 'x", "unclosed '", 5),
        ('"x = 1', 'unclosed "', 0),
        ("`x", "unclosed `", 0),
        ("lr = 1x", "this is not a number", 5),
        ("lr = +x", "this is not a number", 5),
        ("lr  ;", "unexpected ';'", 4),
        ("`` = 1", "expected the name of a field, a parameter or a metric", 0),
        ("1 = 1", "expected the name of a field, a parameter or a metric", 0),
    ],
)
def test_mistake_in_a_token_is_marked(text: str, what: str, at: int) -> None:
    found = mistake(text)
    assert found[0].startswith(what)
    assert found[1:] == (text, " " * at + "^")


@pytest.mark.parametrize(
    ("before", "after", "begin", "end"),
    [(60, 60, "", ""), (61, 60, "...", ""), (60, 61, "", "..."), (100, 100, "...", "...")],
)
def test_sixty_characters_are_shown_to_either_side_of_a_mistake(before: int, after: int, begin: str, end: str) -> None:
    _, shown, mark = mistake(" " * before + ";" + "x" * (after - 1))
    assert shown == begin + " " * min(before, 60) + ";" + "x" * min(after - 1, 59) + end
    assert mark == " " * (len(begin) + min(before, 60)) + "^"


def test_condition_may_have_four_thousand_characters() -> None:
    text = "lr = 1"
    assert read_where(text.ljust(4000))
    with pytest.raises(UsageError, match="4001 characters are more than 4000"):
        read_where(text.ljust(4001))


def test_mark_is_under_wide_and_combining_characters() -> None:
    assert mistake("'漢e\u0301' ;")[2] == " " * 6 + "^"


def test_limits_of_a_condition_are_exact() -> None:
    for text, more in (
        ("(" * DEEPEST + "a = 1" + ")" * DEEPEST, "(" * (DEEPEST + 1) + "a = 1" + ")" * (DEEPEST + 1)),
        ("not " * DEEPEST + "a = 1", "not " * (DEEPEST + 1) + "a = 1"),
        (" or ".join(["a = 1"] * 200), " or ".join(["a = 1"] * 201)),
        (f"a in ({','.join('1' * 400)})", f"a in ({','.join('1' * 401)})"),
    ):
        assert read_where(text)[1]
        with pytest.raises(UsageError):
            read_where(more)


def test_names_to_sort_by_have_a_direction_and_a_limit() -> None:
    _, found = read_sort("-loss, `a b`")
    assert [(order.name.text, order.descending) for order in found] == [("loss", True), ("a b", False)]
    most = next(count for count in range(1, 100) if _is_refused(",".join(["a"] * (count + 1))))
    with pytest.raises(UsageError, match=f"more than {most} names") as caught:
        read_sort(",".join(["a"] * (most + 2)))
    assert caught.value.answer.split("\n")[1] == " " * 2 * most + "^"
    assert [name.text for name in read_names("--columns", "a,b")[1]] == ["a", "b"]


def _is_refused(text: str) -> bool:
    try:
        read_sort(text)
    except UsageError:
        return True
    return False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("9" * 18, int("9" * 18)),
        ("9" * 19, float("9" * 19)),
        ("1e3", 1000.0),
        ("'it''s'", "it's"),
        ('"a""b"', 'a"b'),
        ("true", True),
        ("FALSE", False),
    ],
)
def test_value_of_a_comparison(text: str, value: object) -> None:
    test = read_where(f"a = {text}")[1]
    assert test.values == (value,)  # type: ignore[union-attr]
    assert type(test.values[0]) is type(value)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("a = x", "expected a number, 'text', true or false, found 'x'", "write text in single quotes: 'x'"),
        ("a = null", "expected a number, 'text', true or false, found 'null'", "is null, is not null"),
        ("a = `x`", "expected a number, 'text', true or false, found 'x'", ""),
        ("a =", "expected a number, 'text', true or false, found the end of the text", ""),
        ("a = 1e999", "this number is too large", ""),
        ("a is", "expected null or not null, found the end of the text", ""),
        ("a is not 1", "expected null, found '1'", ""),
        ("a 1", "expected =, !=, <, <=, >, >=, in, like, ~ or is null, found '1'", ""),
        ("a in 1", "expected (, found '1'", ""),
        ("a in (1", "expected ), found the end of the text", ""),
        ("a like 1", "expected a pattern in single quotes, found '1'", ""),
        ("a = 1 b", "expected and, or or the end, found 'b'", ""),
        ("(a = 1", "expected ), found the end of the text", ""),
    ],
)
def test_mistakes_name_what_was_expected(text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_where(text)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def test_pattern_has_at_most_two_hundred_characters() -> None:
    assert read_where(f"a like '{'x' * 200}'")
    with pytest.raises(UsageError, match="longer than 200 characters"):
        read_where(f"a like '{'x' * 201}'")
    assert repr(read_where("a = 1 and b = 2 or not c is null")[1]).count("Many(") == 2


def test_unknown_name_may_be_asked_for_explicitly(index: Index) -> None:
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, "qqqqqq > 1"))
    assert caught.value.hint.startswith("metrics.qqqqqq ")
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, "`qqq qqq` > 1"))
    assert caught.value.hint == ""


def test_columns_have_fixed_fields_parameters_metrics_and_tags_in_the_order_asked_for(index: Index) -> None:
    wanted = uids(index, Wish(PROJECT, sort="run_number"))
    found = columns.read(index, wanted)
    assert list(found)[: len(columns.FIXED)] == list(columns.FIXED)
    assert list(found["run_number"]) == [1, 2, 3, 4]
    assert list(found["duration"]) == [7200, 14400, 21600, 28800]
    assert list(found["dirty"]) == [None, None, None, True]
    assert list(found["params.lr"]) == [0.1, 0.01, "big", None]
    assert list(found["params.fast"]) == [True, None, False, None]
    assert list(found["metrics.loss"]) == [2.0, None, 0.25, None]
    assert list(found["tags.team"]) == ["t1", "t2", "t3", "t4"]
    assert found["arguments"][1] == "--lr=0.01 --optimizer adam"
    part = columns.read(index, [wanted[1], "f" * 32])
    assert list(part["metrics.Accuracy"]) == [0.9, None]  # and of a run that is gone, nothing
    assert "metrics.loss" not in part
    assert columns.read(index, [])["run_number"] == ()


def test_columns_of_more_runs_need_no_more_statements(index: Index) -> None:
    wanted = uids(index, Wish(PROJECT))
    counts = []
    for names in (wanted[:3], wanted):
        statements: list[str] = []
        index.db.set_trace_callback(statements.append)
        columns.read(index, names)
        index.db.set_trace_callback(None)
        counts.append(len([text for text in statements if "points =" not in text]))
    assert counts[0] == counts[1]


def test_joins_have_fifty_names_at_most() -> None:
    joins = sql.Joins()
    assert [joins.alias(number) for number in (7, 8, 7)] == ["v0", "v1", "v0"]
    assert None not in [joins.alias(number) for number in range(100, 148)]
    assert (joins.alias(200), joins.alias(8)) == (None, "v1")


def test_long_unknown_name_is_shown_by_its_beginning(index: Index) -> None:
    with pytest.raises(UsageError) as caught:
        select(index, Wish(PROJECT, f"{'x' * 300} = 1"))
    assert caught.value.what.endswith(f" {'x' * 200!r}")
