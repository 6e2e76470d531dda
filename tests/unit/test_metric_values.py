"""Logged values that are not plain numbers: lines, pictures, tables."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.metrics import values
from holdfast.metrics.lines import LineReader

if TYPE_CHECKING:
    from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n..."
PICTURE: dict[str, Any] = {"type": "image", "file": "1-2-3.png", "width": 4, "height": 5, "sha256": "0"}


def read(line: bytes) -> Any:
    return LineReader(line + b"\n").content(0)


def test_lines_are_known_by_where_they_start() -> None:
    reader = LineReader(b'{"value": 1}\n{"value": [2]}\n{"name": "x"}\n{"value": 3}')
    assert [reader.value(at) for at in (0, 13, 0)] == [1, [2], 1]
    assert reader.missing == 0
    assert [reader.value(at) for at in (28, 28, 42, 5, 1, 12, 1000)] == [None] * 7
    assert reader.missing == 6


@pytest.mark.parametrize("length", [10, 199, 200, 500])
def test_long_and_short_lines_are_read_alike(length: int) -> None:
    line = json.dumps({"value": "x" * length}).encode()
    assert read(line) == read(line) == {"value": "x" * length}


def test_values_are_nested_at_most_a_hundred_levels() -> None:
    for begin, end in (("[", "]"), ('{"a":', "}")):
        deepest = '{"value":' + begin * 99 + "1" + end * 99 + "}"
        too_deep = '{"value":' + begin * 100 + "1" + end * 100 + "}"
        assert read(deepest.encode()) == json.loads(deepest)
        assert read(too_deep.encode()) == {}
    assert read(b"[1]") == read(b"1") == read(b"{") == {}
    wide = {"value": [[1], [[2]], {"a": [3]}]}
    assert read(json.dumps(wide).encode()) == wide


def test_integers_that_no_float_holds_become_text() -> None:
    large = 1 << 1023
    assert read(json.dumps({"value": [large - 1, {"a": -large}]}).encode()) == {
        "value": [large - 1, {"a": str(-large)}]
    }


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert read(b'{"value": "a\\uD800b"}') == {"value": "a?b"}
    assert read(b'{"value": "\\ud83d\\ude00"}') == {"value": "😀"}


def test_picture_is_a_file_of_the_folder_with_its_size() -> None:
    assert values.image(PICTURE) == values.Image("1-2-3.png", 4, 5, "0")
    for change in (
        {"type": "table"},
        {"file": "../1-2-3.png"},
        {"file": "1-2-3.gif"},
        {"file": 3},
        {"width": None},
        {"height": "5"},
        {"sha256": None},
    ):
        assert values.image({**PICTURE, **change}) is None
    assert values.image([]) is None
    assert values.Image("1-2-3.png", 1, 1, "").media_type == "image/png"
    assert values.Image("1-2-3.jpg", 1, 1, "").media_type == "image/jpeg"


def test_picture_is_read_if_its_hash_and_beginning_fit(tmp_path: Path) -> None:
    def found(data: bytes, file: str = "1-2-3.png", digest: str = "") -> bytes | None:
        (tmp_path / file).write_bytes(data)
        return values.read_image(str(tmp_path), values.Image(file, 1, 1, digest or hashlib.sha256(data).hexdigest()))

    assert found(PNG) == PNG
    assert found(PNG, digest="0" * 64) is None
    assert found(PNG, file="1-2-3.jpg") is None
    assert found(b"\xff\xd8\xff..", file="1-2-3.jpg") == b"\xff\xd8\xff.."
    largest = PNG + bytes(values.LARGEST - len(PNG))
    assert values.LARGEST == 16_000_000
    assert found(largest) == largest
    assert found(largest + b"x") is None
    (tmp_path / "1-2-4.png").symlink_to(tmp_path / "1-2-3.png")
    (tmp_path / "1-2-5.png").mkdir()
    for file in ("1-2-4.png", "1-2-5.png", "1-2-6.png"):
        assert values.read_image(str(tmp_path), values.Image(file, 1, 1, "")) is None


def test_table_has_columns_and_rows_of_lists() -> None:
    table: dict[str, Any] = {"type": "table", "columns": ["a", 1], "rows": [[1, 2], []]}
    assert values.table(table) == values.Table(("a", "1"), ((1, 2), ()))
    changes: list[dict[str, Any]] = [{"type": "image"}, {"columns": None}, {"rows": None}, {"rows": [[1], 2]}]
    for change in changes:
        assert values.table({**table, **change}) is None
    assert values.table([]) is None


def test_rows_of_a_long_table_are_counted() -> None:
    short: dict[str, Any] = {"type": "table", "columns": ["a"], "rows": [[1]] * 100}
    long = {**short, "rows": [[1]] * 101}
    counted = {"type": "table", "columns": ["a"], "row_count": 101}
    assert values.brief(short) == short
    assert values.brief(long) == counted
    assert values.brief([short, long]) == [short, counted]
    assert values.brief({**long, "type": "other"}) == {**long, "type": "other"}
    assert values.brief({**long, "rows": 101}) == {**long, "rows": 101}
    assert values.brief([[1], long]) == [[1], long]
    assert values.brief([]) == []
