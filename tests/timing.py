"""A command's time by a watch outside of it, and by its own ledger."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Desk

TRIES = 5
SLEEPS = "import time; time.sleep(2)\n"


def check_ledger(desk: Desk, *words: str, code: int = 0) -> dict[str, Any]:
    """Submit until a try agrees with the watch within 3 %: on a busy machine the watch itself is late now and then."""
    off = 1.0
    found: dict[str, Any] = {}
    for _ in range(TRIES):
        began = time.monotonic()
        result = desk.holdfast("submit", *words, "-o", "json", "train.py")
        took = time.monotonic() - began
        assert result.code == code, result.err
        found = result.json["ledger"]
        assert found == desk.record()["ledger"]
        check_sum(found)
        assert found["whole"]
        off = min(off, abs(found["wall_s"] - took) / took)
        if off <= 0.03:
            return found
    raise AssertionError(f"off by {off:.1%}: {found}")


def check_sum(found: dict[str, Any]) -> None:
    total = sum(length for length in found["parts"].values() if length is not None)
    assert abs(total - found["wall_s"]) <= found["wall_s"] / 100, found
    assert all(length is None or length >= 0 for length in found["parts"].values()), found
