"""Whether the best value of a metric is its lowest or its highest, by the metric's name."""

from __future__ import annotations

_LESS_IS_BETTER = frozenset(
    (
        *("loss", "losses", "error", "errors", "err", "perplexity", "ppl", "mae", "mse", "rmse", "mape", "wer", "cer"),
        *("fid", "nll", "bpc", "bpb", "latency", "seconds", "regret", "distance", "divergence", "kl", "logloss"),
        *("msle", "rmsle", "smape", "mase", "wape", "rmsd", "entropy", "crossentropy", "brier", "hinge", "deviance"),
        *("time", "runtime", "duration", "elapsed", "violations", "fpr", "fnr", "eer", "residual", "residuals"),
    )
)
_MORE_IS_BETTER = frozenset(
    (
        *("accuracy", "acc", "auc", "auroc", "roc", "precision", "recall", "f", "score", "iou", "miou", "dice", "map"),
        *("ap", "ndcg", "mrr", "bleu", "rouge", "meteor", "chrf", "psnr", "ssim", "reward", "return", "returns", "r"),
        *("throughput", "correlation", "pearson", "spearman", "kappa", "mcc", "hits", "win", "wins", "likelihood"),
        *("sensitivity", "specificity", "jaccard", "elo", "correct"),
    )
)


def less_is_better(metric: str) -> bool:
    """Whether one of the words in the name says so, as in val_loss, TestError and rmse."""
    return not _LESS_IS_BETTER.isdisjoint(_tokens(metric))


def has_best(metric: str) -> bool:
    """Whether the name tells which values are good: it does not in lr, epoch and batch_size."""
    tokens = _tokens(metric)
    return not (_LESS_IS_BETTER.isdisjoint(tokens) and _MORE_IS_BETTER.isdisjoint(tokens))


def _tokens(metric: str) -> list[str]:
    import re

    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", metric)]
