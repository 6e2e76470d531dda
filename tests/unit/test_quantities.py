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
