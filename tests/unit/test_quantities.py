from __future__ import annotations

import pytest

from holdfast.quantities import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("4h", 14400), ("1h30m", 5400), ("2d", 172800), (" 45 s ", 45), ("1.5h", 5400), ("1h 30m", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "soon", "-4h", "4x", "4h30x", "1h-30m", "0", "nan", "1e9h", "四h"])
def test_no_durations(text: str) -> None:
    assert parse_duration(text) is None


def test_sizes() -> None:
    assert parse_size("10GB") == 10_000_000_000
    assert parse_size("24 GiB") == 24 * 1024**3
    assert parse_size("many") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(
            ("1s", 1),
            ("1m", 60),
            ("1min", 60),
            ("1h", 3600),
            ("1d", 86400),
            ("1 h 30 m", 5400),
            ("1H", 3600),
            ("0.5h", 1800),
        ),
        *(
            ("0", None),
            ("0s", None),
            ("1h0m", None),
            ("1x", None),
            ("h", None),
            ("-1", None),
            ("1.2.3", None),
            ("", None),
        ),
        *((".5", 0.5), ("1.", 1), ("1h x", None), ("9e9", None), ("1" + "0" * 17, 10**17), ("1" + "0" * 18, None)),
    ],
)
def test_durations_are_sums_of_parts(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("1", 1), ("1B", 1), ("1K", 1000), ("1kb", 1000), ("1KiB", 1024), ("2M", 2 * 10**6), ("1MiB", 1 << 20)),
        *(("1GB", 10**9), ("1gib", 1 << 30), ("1T", 10**12), ("1TiB", 1 << 40), ("1.5 GB", 15 * 10**8)),
        *(("0", None), ("1X", None), ("1Ki", None), ("1h", None), ("1 5", None), ("٣", None)),
    ],
)
def test_sizes_have_decimal_and_binary_units(text: str, size: int | None) -> None:
    assert parse_size(text) == size


def test_size_has_eighteen_digits_at_most() -> None:
    assert parse_size("999999TB") == 999_999 * 10**12
    assert parse_size("1000000TB") is parse_size("2000000TB") is None
