"""Names and files from elsewhere: what passes, what is refused, and that nothing blocks."""

from __future__ import annotations

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
