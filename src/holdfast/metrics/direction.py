"""Whether the best value of a metric is its lowest or its highest, by the metric's name."""

from __future__ import annotations

_LESS_IS_BETTER = frozenset(
    (
        *("loss", "losses", "error", "errors", "err", "perplexity", "ppl", "mae", "mse", "rmse", "mape", "wer", "cer"),
        *("fid", "nll", "bpc", "bpb", "latency", "seconds", "regret", "distance", "divergence", "kl"),
    )
)


def less_is_better(metric: str) -> bool:
    """Whether one of the words in the name says so, as in val_loss, TestError and rmse."""
    import re

    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", metric)
    return any(part.lower() in _LESS_IS_BETTER for part in parts)
