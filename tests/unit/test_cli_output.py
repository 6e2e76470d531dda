from __future__ import annotations

import io
import json
import math
import re
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from holdfast.errors import UsageError
from holdfast.present import jmespath_query as query
from holdfast.present.output import as_json, as_table, as_tsv, as_yaml, emit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Render = Callable[..., str]

RUNS: list[dict[str, Any]] = [
    {"run_id": "p_2", "status": "Failed", "duration": "0:00:09.5", "Accuracy": 0.9733333333, "loss": [2.0, 1.0]},
    {"run_id": "p_1", "status": "Completed", "duration": "0:01:00.25", "Accuracy": None, "number": 12},
]
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def emitted(value: Any, encoding: str = "utf-8", **how: Any) -> bytes:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    emit(value, stream=stream, **how)
    stream.flush()
    return raw.getvalue()


def test_a_pipe_gets_json_and_a_terminal_a_table() -> None:
    assert json.loads(emitted(RUNS)) == RUNS
    assert emitted(RUNS, isatty=True).startswith(b"Accuracy  duration")


def test_json_is_indented_by_two_with_keys_in_ascii_order() -> None:
    assert as_json({"b": [1], "B": None}) == '{\n  "B": null,\n  "b": [\n    1\n  ]\n}\n'


@given(VALUES)
def test_json_reads_back_to_the_same_value_in_any_encoding(value: Any) -> None:
    for encoding in ("utf-8", "ascii", "cp1252"):
        printed = emitted(value, encoding, fmt="json").decode(encoding)
        assert json.loads(printed) == value
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed)


def test_json_keeps_letters_that_the_stream_can_hold() -> None:
    assert emitted("é漢") == '"é漢"\n'.encode()
    assert emitted("é漢", "ascii") == b'"\\u00e9\\u6f22"\n'


def test_json_has_no_nan() -> None:
    assert json.loads(emitted({"a": math.nan, "b": [math.inf, (1.0, -math.inf)]})) == {
        "a": None,
        "b": [None, [1.0, None]],
    }


def test_jsonc_is_plain_in_a_pipe() -> None:
    assert emitted(RUNS, fmt="jsonc") == emitted(RUNS, fmt="json")


def test_jsonc_on_a_terminal_is_the_same_json_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    emit([{"key": 'a "quoted": -1', "n": -1.5e-7, "t": True}], fmt="jsonc", stream=terminal)
    coloured = terminal.getvalue()
    assert '\x1b[34m"key"\x1b[0m: \x1b[32m"a \\"quoted\\": -1"\x1b[0m' in coloured
    assert "\x1b[36m-1.5e-07\x1b[0m" in coloured
    assert json.loads(re.sub(r"\x1b\[\d+m", "", coloured)) == [{"key": 'a "quoted": -1', "n": -1.5e-7, "t": True}]


def test_table_of_runs_has_the_shape_of_the_original() -> None:
    assert as_table(RUNS, capitals=True).splitlines() == [
        "Accuracy  Duration    Number  Run_id  Status",
        "--------  ----------  ------  ------  ---------",
        "0.973333  0:00:09.5           p_2     Failed",
        "          0:01:00.25      12  p_1     Completed",
    ]


def test_table_of_chosen_columns_has_titles_as_a_query_needs_them() -> None:
    assert as_table(RUNS, ["run_id", "number", "gone"]).splitlines()[:2] == [
        "run_id  number  gone",
        "------  ------  ----",
    ]


def test_table_of_words_objects_and_scalars() -> None:
    assert as_table(["local", "docker"]) == "result\n------\nlocal\ndocker\n"
    assert as_table({"state": "Running", "run_id": "p_1", "tags": ["a"]}) == (
        'run_id : p_1\n state : Running\n  tags : ["a"]\n'
    )
    assert as_table([[1, "a"], [2, "b"]]) == "result\n------\n1  a\n2  b\n"
    assert as_table(3.5) == "3.5\n"
    assert as_table([]) == as_table(None) == ""


def test_table_shows_control_characters_and_aligns_wide_ones() -> None:
    assert as_table([{"a": "x\x1b]0;\n", "b": 1}]).splitlines()[2] == r"x\x1b]0;\n  1"
    assert as_table([{"a": "漢", "b": "x"}, {"a": "abcd", "b": "y"}]).splitlines()[2:] == ["漢    x", "abcd  y"]


def test_table_is_cut_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    rows = [{"name": "n" * 50, "number": 123456, "text": "t" * 20}]
    assert emitted(rows, fmt="table").splitlines()[2] == b"n" * 50 + b"  123456  " + b"t" * 20
    assert emitted(rows, fmt="table", isatty=True).decode().splitlines() == [
        "name        number  text",
        "----------  ------  ----------",
        "nnnnnnnnn…  123456  ttttttttt…",
    ]


def test_large_and_small_numbers_stay_readable_in_a_table() -> None:
    numbers = [1510000000.123, 0.1 + 0.2, 1e-9, 1e300, math.nan, True, 12345678901234567890]
    assert [as_table(number).strip() for number in numbers] == [
        *("1510000000", "0.3", "1e-09", "1e+300", "", "True", "12345678901234567890"),
    ]


def test_tsv_has_one_column_per_key_of_all_rows() -> None:
    assert as_tsv(RUNS).splitlines() == [
        "0.9733333333\t0:00:09.5\t[2.0,1.0]\t\tp_2\tFailed",
        "\t0:01:00.25\t\t12\tp_1\tCompleted",
    ]


def test_tsv_of_other_shapes() -> None:
    assert as_tsv(["a", 1, True, "b"]) == "a\n1\ntrue\nb\n"
    assert as_tsv([["a", 1], ["b", {"x": math.nan}]]) == 'a\t1\nb\t{"x":null}\n'
    assert as_tsv({"b": "x\ty\n\\", "a": math.nan}) == "\tx\\ty\\n\\\\\n"
    assert as_tsv(None) == as_tsv([]) == ""


def test_tsv_of_one_string_is_the_string() -> None:
    assert emitted("a\tb\n\udc80\x1b", fmt="tsv") == b"a\tb\n\x80\x1b\n"
    assert emitted("a\n\x1b", fmt="tsv", isatty=True) == b"a\n\\x1b\n"
    assert emitted("漢\udc80", "ascii", fmt="tsv") == b"\\u6f22\x80\n"


@given(VALUES)
def test_yaml_reads_back_to_the_same_value(value: Any) -> None:
    assert YAML(typ="safe", pure=True).load(as_yaml(value)) == value


def test_yaml_quotes_what_older_readers_take_for_something_else() -> None:
    assert as_yaml({"duration": "1:02:03", "answer": "no", "word": "local", "none": None}) == (
        'answer: "no"\nduration: "1:02:03"\nnone: null\nword: local\n'
    )


def test_queries_of_the_original_documentation() -> None:
    best = "@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy"
    assert emitted(RUNS, query=best) == b"0.9733333333\n"
    assert emitted(RUNS, query="[?status == 'Failed'].run_id | [0]", fmt="tsv") == b"p_2\n"
    assert emitted(RUNS, query="sort_by(@, &duration)[].run_id") == b'[\n  "p_2",\n  "p_1"\n]\n'
    assert emitted(RUNS, query="nothing") == b"null\n"
    assert emitted([{"test_accuracy:": math.nan}], query='[0]."test_accuracy:"') == b"null\n"


def test_a_query_passes_undecodable_text_through() -> None:
    assert query.search("[0]", ["\udcff"]) == "\udcff"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "the expression is empty"),
        ("foo[", "the expression ends too early"),
        ("a b", "did not expect 'b' at character 3"),
        ("a.'x", "at character 3"),
        ("nope(@)", "Unknown function: nope()"),
        ("length(@, @)", "Expected 1 argument for function length(), received 2"),
        ("[::0]", "step cannot be zero"),
        ("[" * 4000, "nests too deeply"),
        ("!" * 9000 + "@", "nests too deeply"),
        ("(" * 100_000, "the expression is 100000 characters long"),
    ],
)
def test_a_faulty_query_is_explained(expression: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        query.search(expression, RUNS)
    assert why in caught.value.what
    assert caught.value.where == "--query"


DOUBLED = "|".join(["[@,@]"] * 40)
COPIED = "[" + ",".join(["[:]"] * 2000) + "]"
HOSTILE = {
    "nested lists": DOUBLED,
    "text of nested lists": DOUBLED + "|to_string(@)",
    "type error about nested lists": DOUBLED + "|abs(@)",
    "comparison of nested lists": f"[{DOUBLED}] == [{DOUBLED}]",
    "membership in nested lists": f"contains([{DOUBLED}], {DOUBLED})",
    "flattened lists": "|".join(["[@,@][]"] * 60),
    "many copies flattened": "[" + ",".join(["@"] * 3000) + "][]|[" + ",".join(["@"] * 1500) + "][]|sort(@)",
    "copies of a long list": "|".join(["[@,@][]"] * 20) + "|" + COPIED,
    "projections": "|".join(["[@,@][]"] * 20) + "[*]" * 50,
    "joined text": "'x'|" + "|".join(["join('', [@,@])"] * 60),
    "joined by long text": "|".join(["[@,@][]"] * 18) + "|map(&'x', @)|join('" + "-" * 8000 + "', @)",
    "long keys": "|".join(["{%s: @}" % ("k" * 90)] * 60) + "|" + "|".join(["[@,@]"] * 30),
    "long numbers": "to_number('" + "9" * 4200 + "')|" + "|".join(["[@,@]"] * 22) + "|to_string(@)",
    "merged objects": "{a: @}|" + "|".join(["merge({a: @, b: @}, {c: @, d: @})"] * 40),
    "deep result": "|".join(["[" * 40 + "@" + "]" * 40] * 20),
    "expression as result": "[&a]",
    "repeated sorting": "|".join(["[@,@][]"] * 25) + "|sort_by(@, &run_id)",
    "text in every projection": "|".join(["[@,@][]"] * 18) + "[*].to_string([@,@,@])",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_query_ends_soon_and_other_threads_go_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "TIME_LIMIT_S", 0.2)
    expression = HOSTILE[name]
    assert len(expression) <= query.LENGTH_LIMIT
    pauses: list[float] = []
    ended = threading.Event()

    def beat() -> None:
        last = time.monotonic()
        while not ended.wait(0.01):
            last, before = time.monotonic(), last
            pauses.append(last - before)

    other = threading.Thread(target=beat)
    other.start()
    started = time.monotonic()
    try:
        with pytest.raises(UsageError) as caught:
            query.search(expression, RUNS)
    finally:
        ended.set()
        other.join()
    assert caught.value.where == "--query"
    assert len(caught.value.what) <= 300
    assert time.monotonic() - started < 60, "little processor time, on a busy machine too"
    assert max(pauses, default=0) < 5


@pytest.mark.parametrize(
    "name", ["nested lists", "many copies flattened", "joined text", "long keys", "merged objects"]
)
def test_a_hostile_query_builds_little_however_long_it_may_take(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "TIME_LIMIT_S", 100.0)
    monkeypatch.setattr(query, "SIZE_LIMIT", 4 << 20)
    with pytest.raises(UsageError, match="more than 4 MiB"):
        query.search(HOSTILE[name], RUNS)


def test_a_query_over_many_runs_is_within_the_limits() -> None:
    runs = [{**RUNS[0], "number": number} for number in range(20_000)]
    assert query.search("[?number > `19998`].{n: number, s: status}", runs) == [{"n": 19999, "s": "Failed"}]
    assert query.search("sort_by(@, &number)[-1].number", runs) == 19999
    assert query.search("@", runs) == runs


def test_reason_of_a_faulty_query_has_three_hundred_characters_at_most() -> None:
    refused = [query._refused("x" * length).what for length in (300, 301)]
    assert refused == ["x" * 300, "x" * 299 + "…"]
