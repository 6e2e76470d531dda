"""Names and files from elsewhere: what passes, what is refused, and that nothing blocks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runner import untrusted
from holdfast.runner.untrusted import Untrusted

BAD_NAMES: list[Any] = ["", ".", "..", "a/b", "/a", "a\0b", "x" * 256, "\ud800", None, 3, [], {}, "é" * 128]


@pytest.mark.parametrize("name", ["a", "a.b", "...", "a\\b", "é", "x" * 255, "a\nb", "\udcff", b"\xff"])
def test_component_accepts_any_single_file_name(name: str) -> None:
    assert untrusted.component(name) == name


@pytest.mark.parametrize("name", BAD_NAMES)
def test_component_refuses_what_is_not_one_file_name(name: str) -> None:
    with pytest.raises(Untrusted):
        untrusted.component(name)


@pytest.mark.parametrize("path", ["a/../b", "/etc/passwd", "a//b", "a/", "../x", "x/" * 2100 + "x"])
def test_relative_refuses_paths_that_could_leave_the_folder(path: str) -> None:
    with pytest.raises(Untrusted):
        untrusted.relative(path)


@given(st.text(alphabet="./\\a\0é", max_size=12))
def test_below_never_leaves_the_folder(path: str) -> None:
    try:
        joined = untrusted.below("/store/outputs", path)
    except Untrusted:
        return
    assert os.path.normpath(joined) == joined
    assert joined.startswith("/store/outputs/")


@pytest.mark.parametrize("text", ["../../x", "", "{" + "0" * 36 + "}", None, 7, "0" * 36])
def test_guid_refuses_what_is_not_a_guid(text: object) -> None:
    with pytest.raises(Untrusted):
        untrusted.guid(text)


def test_guid_is_given_back_in_lower_case() -> None:
    assert untrusted.guid("ABCDEF01-2345-6789-abcd-ef0123456789") == "abcdef01-2345-6789-abcd-ef0123456789"


@pytest.mark.parametrize("text", ["A" * 32, "a" * 31, "a" * 32 + "\n", None, "../" + "a" * 29])
def test_hexadecimal_refuses_other_lengths_and_letters(text: object) -> None:
    with pytest.raises(Untrusted):
        untrusted.hexadecimal(text, 32)


def test_read_file_returns_the_content_of_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert untrusted.read_file(str(tmp_path / "a"), 5) == b"12345"


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["fifo", "device", "huge", "link out", "socket"])
def test_read_file_refuses_what_is_not_a_small_regular_file_inside(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "project"
    root.mkdir()
    path = root / "file"
    _make(kind, path, tmp_path)
    with pytest.raises(Untrusted, match="file"):
        untrusted.read_file(str(path), 1000, str(root))


def test_read_file_follows_links_that_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    assert untrusted.read_file(str(tmp_path / "link"), 10, str(tmp_path)) == b"x"


def test_read_file_tells_missing_and_folder_as_the_system_does(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        untrusted.read_file(str(tmp_path / "no"), 10)
    with pytest.raises(IsADirectoryError):
        untrusted.read_file(str(tmp_path), 10)


def test_read_file_without_follow_refuses_a_link_that_stays_inside(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(Untrusted):
        untrusted.read_file(str(tmp_path / "link"), 10, follow=False)


def test_create_file_replaces_a_link_and_leaves_what_it_led_to(tmp_path: Path) -> None:
    """A project can hold links under every temporary name that a process of ours could use."""
    (tmp_path / "private").write_text("mine")
    (tmp_path / "x.tmp").symlink_to("private")
    with open(untrusted.create_file(str(tmp_path / "x.tmp")), "w") as target:
        target.write("theirs")
    assert (tmp_path / "private").read_text() == "mine"
    assert (tmp_path / "x.tmp").read_text() == "theirs"
    assert not (tmp_path / "x.tmp").is_symlink()


def test_inside_follows_links_before_it_answers(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "out").symlink_to(tmp_path)
    (tmp_path / "project" / "same").symlink_to(".")
    assert untrusted.inside(str(tmp_path / "project" / "same" / "x"), str(tmp_path / "project"))
    with pytest.raises(Untrusted, match="leads out"):
        untrusted.inside(str(tmp_path / "project" / "out" / "x"), str(tmp_path / "project"))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": [1, "x", null]}', {"a": [1, "x", None]}),
        (b"[9223372036854775807, -9223372036854775808]", [(1 << 63) - 1, -(1 << 63)]),
        (b"[9223372036854775808, -9223372036854775809, 0]", [float(1 << 63), -float((1 << 63) + 1), 0]),
        (b"1" + b"0" * 400, None),
        (b"[NaN, Infinity, -Infinity, 1e999, 1.5]", [None, None, None, None, 1.5]),
        (
            b'["\\ud800", "\\udc80", "\\udcff", "\\udd00", "\\ud83d\\ude00"]',
            ["\ufffd", "\udc80", "\udcff", "\ufffd", "😀"],
        ),
        (b'{"\\udfff": {"a": "\\ud801"}}', {"\ufffd": {"a": "\ufffd"}}),
    ],
)
def test_json_has_only_values_that_every_reader_can_use(data: bytes, value: object) -> None:
    found = untrusted.loads(data)
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_json_is_nested_at_most_a_hundred_levels(begin: bytes, end: bytes) -> None:
    inner = begin.rstrip(b":").replace(b'"a"', b"") + end  # the innermost is empty
    assert untrusted.loads(begin * 99 + inner + end * 99)
    for depth in (100, 200, 100_000):
        with pytest.raises(Untrusted, match="nested too deeply"):
            untrusted.loads(begin * depth + inner + end * depth)


def test_flat_json_with_many_brackets_is_read() -> None:
    assert untrusted.loads(b"[" + b",".join([b"[]"] * 500) + b"]") == [[]] * 500


def test_json_numbers_have_fewer_than_four_thousand_digits() -> None:
    assert untrusted.loads(b"0." + b"1" * 3999) == pytest.approx(1 / 9)
    with pytest.raises(Untrusted, match="4000 digits"):
        untrusted.loads(b"0." + b"1" * 4000)
    for data in (b"", b"{"):
        with pytest.raises(json.JSONDecodeError):
            untrusted.loads(data)
    with pytest.raises(UnicodeDecodeError):
        untrusted.loads(b"\xff")


def test_lengths_of_names_and_paths_count_in_bytes() -> None:
    assert untrusted.relative("x/" * 1999 + "xx")
    with pytest.raises(Untrusted, match="longer than 4000 bytes"):
        untrusted.relative("x/" * 1999 + "xxx")
    assert untrusted.component("é" * 127 + "x")
    assert untrusted.hexadecimal("0f" * 16, 32) == "0f" * 16
    with pytest.raises(Untrusted):
        untrusted.hexadecimal("", 0)


def test_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123")
    assert untrusted.read_file(str(tmp_path / "a"), 3) == b"123"
    with pytest.raises(untrusted.TooLargeError, match="3 bytes, at most 2 are read"):
        untrusted.read_file(str(tmp_path / "a"), 2)
    os.close(untrusted.open_file(str(tmp_path / "a")))
    with pytest.raises(untrusted.TooLargeError, match="larger than 0 bytes"):
        untrusted.read_file("/proc/self/status", 0)  # a file that says that it is empty
    assert os.stat(tmp_path / "a").st_mode & 0o077 == 0o044
    os.close(untrusted.create_file(str(tmp_path / "a")))
    assert os.stat(tmp_path / "a").st_mode & 0o777 == 0o600


def test_folder_is_inside_itself_and_its_neighbour_is_not(tmp_path: Path) -> None:
    for name in ("a", "ab"):
        (tmp_path / name).mkdir()
    assert untrusted.inside(str(tmp_path / "a"), str(tmp_path / "a"))
    assert untrusted.inside(str(tmp_path), "/")
    with pytest.raises(untrusted.OutsideError):
        untrusted.inside(str(tmp_path / "ab"), str(tmp_path / "a"))


def _make(kind: str, path: Path, elsewhere: Path) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as target:
            target.truncate(1 << 40)
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    else:
        (elsewhere / "secret").write_text("x")
        path.symlink_to(elsewhere / "secret")


def test_json_with_many_brackets_may_be_a_hundred_levels_deep() -> None:
    assert untrusted.loads(b"[" * 99 + b"[],[]" + b"]" * 99)
