"""CSV: titles, cells, quotes, and text that a spreadsheet would calculate."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.present.csv_table import as_csv, line


def test_objects_have_a_line_with_all_their_keys() -> None:
    assert as_csv([{"b": 1, "a": None}, {"c": 2.5}]) == "a,b,c\n,1,\n,,2.5\n"
    assert as_csv({"a": True}) == "a\ntrue\n"


def test_given_columns_are_the_titles() -> None:
    assert as_csv([{"b": 1, "a": 2}], ["b"]) == "b\n1\n"
    assert as_csv([], ["b"]) == "b\n"
    assert as_csv([]) == ""


def test_lists_are_rows_without_titles() -> None:
    assert as_csv([[1, "x"], "y", None, {"k": 3}]) == "k\n1,x\ny\n3\n"
    assert as_csv([[1, 2], [3, 4]]) == "1,2\n3,4\n"
    assert as_csv("one") == "one\n"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *((None, ""), (0, "0"), (-1.5, "-1.5"), (False, "false"), ("text", "text"), ("", "")),
        *(({"b": 1, "a": [2]}, '"{""a"": [2], ""b"": 1}"'), ([], "[]")),
        *(("a,b", '"a,b"'), ("a;b", '"a;b"'), ('say "x"', '"say ""x"""'), ("two\nlines", '"two\nlines"')),
        *(("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\uff1d1", "'\uff1d1")),
        *(
            (" \u200b=1", "'\u200b".replace("'", "' ") + "=1"),
            ("\tx", '"\'\tx"'),
            ("\rx", '"\'\rx"'),
            ("\nx", '"\'\nx"'),
        ),
        *(("a=1", "a=1"), (" a", " a"), ("   ", "   ")),
    ],
)
def test_cell_is_a_number_text_or_harmless_text(value: Any, cell: str) -> None:
    assert line([value]) == f"{cell}\n"


def test_terminal_gets_escapes_instead_of_control_characters() -> None:
    assert line(["a\x1b[2Jb"], isatty=True) == "a\\x1b[2Jb\n"
    assert line(["a\x1b[2Jb"]) == "a\x1b[2Jb\n"
    assert as_csv([{"\x07": "\x07"}], isatty=True) == "\\x07\n\\x07\n"
    assert as_csv(["\x07"]) == "\x07\n"
