"""The GPUs of a run as its supervisor takes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuruns import WISH
from holdfast.runner.gpu import run_gpus
from holdfast.runner.plan import Plan
from holdfast.runner.store import run_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("count", [1, None])
def test_run_that_is_stopped_while_the_driver_is_asked_takes_nothing_and_does_not_fail(
    tmp_path: Path, count: int | None
) -> None:
    """Its outcome is that of the stop; ``take`` used to raise as if the machine had no GPU."""
    attempt = os.fsencode(tmp_path)
    plan = {"uid": "1" * 32, "run_id": "r_1", "argv": ["true"], "tree": "0" * 64, "gpu": {**WISH, "count": count}}
    hold = run_gpus.Hold(attempt, Plan(plan))
    events = run_files.Events(attempt)
    try:
        assert not hold.take(events, lambda wait, sources: False)
    finally:
        hold.keep()
    assert not (tmp_path / "events.jsonl").exists() or b"gpu_" not in (tmp_path / "events.jsonl").read_bytes()
