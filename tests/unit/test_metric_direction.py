"""Which metrics are better when they are lower."""

from __future__ import annotations

import pytest

from holdfast.metrics.direction import less_is_better


@pytest.mark.parametrize("name", ["loss", "val_loss", "TestError", "RMSE", "latency", "latency_ms", "kl", "eval/wer"])
def test_less_is_better_for_losses_errors_and_times(name: str) -> None:
    assert less_is_better(name)


@pytest.mark.parametrize("name", ["Accuracy", "glossary", "preferred_acc", "f1", "terror", "closse", ""])
def test_more_is_better_for_all_other_names(name: str) -> None:
    assert not less_is_better(name)
