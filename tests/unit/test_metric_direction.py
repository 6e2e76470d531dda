"""Which metrics are better when they are lower."""

from __future__ import annotations

import pytest

from holdfast.metrics.direction import has_best, less_is_better


@pytest.mark.parametrize(
    "name",
    [
        "loss",
        "val_loss",
        "TestError",
        "RMSE",
        "latency",
        "latency_ms",
        "kl",
        "eval/wer",
        "binary_logloss",
        "rmsle",
        "cross_entropy",
        "runtime",
    ],
)
def test_less_is_better_for_losses_errors_and_times(name: str) -> None:
    assert less_is_better(name)


@pytest.mark.parametrize("name", ["Accuracy", "glossary", "preferred_acc", "f1", "terror", "closse", ""])
def test_more_is_better_for_all_other_names(name: str) -> None:
    assert not less_is_better(name)


@pytest.mark.parametrize("name", ["val_loss", "Accuracy", "f1", "r2", "test/F1-score", "mAP", "top5_acc", "BLEU"])
def test_names_of_losses_and_scores_tell_what_is_best(name: str) -> None:
    assert has_best(name)


@pytest.mark.parametrize("name", ["lr", "learning_rate", "epoch", "step", "batch_size", "seed", "epoch_s", "x", ""])
def test_names_of_settings_and_counters_do_not(name: str) -> None:
    assert not has_best(name)
