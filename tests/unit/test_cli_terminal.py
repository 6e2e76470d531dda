from __future__ import annotations

import io
import os
import re
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.present.terminal import (
    EscapeFilter,
    Progress,
    clip,
    display_width,
    human_bytes,
    human_duration,
    is_tty,
    show,
    use_colour,
    width,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

PIECES = st.sampled_from(
    [
        *(
            b"\x1b",
            b"[",
            b"]",
            b"P",
            b"31",
            b"m",
            b"K",
            b";",
            b"?",
            b"0",
            b" ",
            b"\x07",
            b"\\",
            b"\n",
            b"\r",
            b"\x9b",
        ),
        *(b"\xc2", b"\xc2\x9b", b"\xc3\xa9", b"\xe2\x82\xac", b"\xff", b"a", b"\x1b[31m", b"\x1b]0;title", b"\x18"),
    ]
)
LOGS = st.lists(PIECES | st.binary(max_size=4), max_size=40).map(b"".join)


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    if sys.platform == "win32":
        pytest.skip("pseudo terminals are POSIX")
    master, slave = os.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


class TerminalInMemory(io.StringIO):
    def isatty(self) -> bool:
        return True


def filtered(log: bytes, cuts: list[int] | None = None) -> bytes:
    escapes = EscapeFilter()
    edges = [0, *sorted(cuts or []), len(log)]
    chunks = [log[start:end] for start, end in pairwise(edges)]
    return b"".join(map(escapes.feed, chunks)) + escapes.finish()


def test_colour_goes_to_terminals_only(tty: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_tty(tty)
    assert use_colour(tty)
    monkeypatch.setenv("TERM", "dumb")
    assert not use_colour(tty)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert use_colour(tty)
    assert not use_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_colour(tty)


def test_width_is_that_of_the_terminal(tty: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "win32":
        import fcntl
        import struct
        import termios

        fcntl.ioctl(tty.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, 101, 0, 0))
    assert width(tty) == 101
    assert width(io.StringIO()) == 80
    monkeypatch.setenv("COLUMNS", "33")
    assert width(tty) == 33


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not is_tty(stream)


def test_show_escapes_what_could_act_on_the_terminal() -> None:
    assert show("plain é 漢") == "plain é 漢"
    assert show("a\x1b[31m\n\x9b\u202e\udc80") == r"a\x1b[31m\n\x9b\u202e\udc80"


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_show_is_printable(text: str) -> None:
    assert show(text).isprintable()


def test_clip_counts_columns() -> None:
    assert display_width("e\u0301漢a") == 4
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdefg", 6) == "abcde…"
    assert clip("漢漢漢漢", 6) == "漢漢…"


@given(st.text(max_size=30), st.integers(1, 20))
def test_clipped_text_fits(text: str, columns: int) -> None:
    assert display_width(clip(text, columns)) <= columns


def test_human_bytes() -> None:
    sizes = [0, 999, 1000, 123_456, 999_499, 999_500, 10**9, 5 * 10**12, 3 * 10**15]
    assert [human_bytes(size) for size in sizes] == [
        *("0 B", "999 B", "1.0 kB", "123 kB", "999 kB", "1.0 MB", "1.0 GB", "5.0 TB", "3.0 PB"),
    ]


def test_human_duration() -> None:
    spans = [0.424, 9.994, 12.34, 59.94, 59.96, 200, 3599.6, 3900, 86400 * 2 + 3 * 3600]
    assert [human_duration(span) for span in spans] == [
        *("0.42 s", "9.99 s", "12.3 s", "59.9 s", "1 min 00 s", "3 min 20 s", "1 h 00 min", "1 h 05 min", "2 d 3 h"),
    ]


@pytest.mark.parametrize(
    "kept",
    [
        b"text \xc3\xa9 \xe2\x82\xac\xf0\x9f\x8e\x89\n",
        b"50%\r\x1b[K60%\r",
        b"\x1b[2A\x1b[3B\x1b[4C\x1b[D\x1b[1G",
        b"a\tb\b",
    ],
)
def test_what_progress_bars_need_passes(kept: bytes) -> None:
    assert filtered(kept) == kept


def test_a_colour_left_on_is_reset_at_the_end() -> None:
    assert filtered(b"\x1b[38;2;1;2;3mred") == b"\x1b[38;2;1;2;3mred\x1b[0m"
    assert filtered(b"\x1b[31mred\x1b[0m") == b"\x1b[31mred\x1b[0m"


@pytest.mark.parametrize(
    "dropped",
    [
        *(b"\x1b]0;title\x07", b"\x1b]52;c;ZXZpbA==\x1b\\", b"\x1bPq#0;2;0\x1b\\", b"\x1b_apc\x1b\\", b"\x1b^pm\x18"),
        *(b"\x1b[2J", b"\x1b[H", b"\x1b[?1049h", b"\x1b[?25l", b"\x1b[6n", b"\x1b[>4;2m", b"\x1b[!p", b"\x1b[5;1r"),
        *(
            b"\x1b7",
            b"\x1b8",
            b"\x1bc",
            b"\x1b(0",
            b"\x1b#8",
            b"\x1b%G",
            b"\xc2\x9b",
            b"\x07",
            b"\x0e",
            b"\x00",
            b"\x7f",
        ),
    ],
)
def test_everything_else_is_dropped(dropped: bytes) -> None:
    assert filtered(b"a" + dropped + b"b") == b"ab"


def test_an_unfinished_title_cannot_hide_the_next_line() -> None:
    assert filtered(b"a\x1b]0;never ended\nb") == b"a\nb"


def test_bytes_that_are_not_text_show_as_such() -> None:
    assert filtered(b"a\xffb\xe2\x82") == "a\ufffdb\ufffd".encode()


def test_halves_of_a_control_do_not_meet() -> None:
    assert b"\xc2\x9b" not in filtered(b"\xc2\x1b[?1h\x9b31m")


@given(LOGS, st.data())
def test_cutting_the_log_into_chunks_changes_nothing(log: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=10))
    assert filtered(log, cuts) == filtered(log)


@given(LOGS)
def test_only_known_sequences_come_out(log: bytes) -> None:
    text = re.sub(r"\x1b\[[0-9;:]*[ABCDGKm]", "", filtered(log).decode())
    assert not re.search(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]", text)


def test_little_is_held_back() -> None:
    endless = EscapeFilter()
    assert endless.feed(b"\x1b[" + b"1" * 1_000_000) == b"[" + b"1" * 1_000_000
    assert endless.feed(b"\x1b]0;" + b"x" * 1_000_000) == b""
    assert endless.feed(b"\x07done") == b"done"


def test_progress_appears_after_a_second_ten_times_a_second_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen = TerminalInMemory()
    now = [0.0]
    with Progress(seen, clock=lambda: now[0]) as progress:
        for step in range(200):
            now[0] = step / 100
            progress.update(f"{step} files\n")
    drawn = seen.getvalue().split("\r\x1b[K")
    assert drawn[1] == r"100 files\n"
    assert 9 <= len(drawn[1:-1]) <= 11
    assert drawn[-1] == ""


def test_progress_is_silent_in_a_pipe() -> None:
    seen = io.StringIO()
    now = [0.0]
    with Progress(seen, clock=lambda: now[0]) as progress:
        now[0] = 10.0
        progress.update("working")
    assert seen.getvalue() == ""


@pytest.mark.parametrize(
    ("line", "columns", "indent", "lines"),
    [
        ("a b c", 5, 0, ["a b c"]),
        ("a b c", 4, 0, ["a b", "c"]),
        ("a b c", 3, 0, ["a b", "c"]),
        ("a b c", 2, 0, ["a", "b", "c"]),
        ("- word more", 6, 2, ["- word", "  more"]),
        ("longer x", 3, 0, ["longer", "x"]),
    ],
)
def test_lines_are_wrapped_at_spaces(line: str, columns: int, indent: int, lines: list[str]) -> None:
    assert wrap(line, columns, indent) == lines


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_949, "99.9 kB"), (99_950, "100 kB"), (999_499, "999 kB")),
        *((999_500, "1.0 MB"), (1_234_567, "1.2 MB"), (10**9, "1.0 GB"), (10**12, "1.0 TB"), (5 * 10**18, "5000.0 PB")),
    ],
)
def test_bytes_are_written_with_decimal_units(count: int, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.424, "0.42 s"), (9.99, "9.99 s"), (9.995, "10.0 s"), (59.94, "59.9 s"), (59.95, "1 min 00 s")),
        *((200, "3 min 20 s"), (3599.4, "59 min 59 s"), (3600, "1 h 00 min"), (3900, "1 h 05 min")),
        *((86399, "23 h 59 min"), (86400, "1 d 0 h"), (183600, "2 d 3 h")),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "columns", "clipped"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("漢字", 4, "漢字"),
        ("漢字", 3, "漢…"),
        ("漢字漢", 4, "漢…"),
        ("e\u0301x", 2, "e\u0301x"),
    ],
)
def test_text_is_clipped_by_its_width(text: str, columns: int, clipped: str) -> None:
    assert clip(text, columns) == clipped
