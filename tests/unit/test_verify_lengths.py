"""Lengths in a closing event come from a target: none of them ends a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.store import verify

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("size", [-1, -(2**70), 2**70, None, "3", 1.5, [], True])
@pytest.mark.parametrize("whole", [True, False])
def test_length_that_cannot_be_is_a_difference(tmp_path: Path, size: object, whole: bool) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"abc")
    assert verify.compare(str(path), size, "0" * 64, whole=whole)
