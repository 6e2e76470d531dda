"""Joins the series of attempts that resumed from each other's checkpoints, without lost or repeated steps (pure)."""

from __future__ import annotations

from itertools import compress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.metrics.values import Series


def continued(attempts: Sequence[dict[str, Series]]) -> dict[str, Series]:
    """Every name of any attempt. What a later attempt logged again replaces what an earlier one logged."""
    combined: dict[str, Series] = {}
    for by_name in attempts:
        for name, series in by_name.items():
            combined[name] = joined(combined[name], series) if name in combined else series
    return combined


def joined(earlier: Series, later: Series) -> Series:
    """The later series begins where the script resumed: at its own first step, or after all counted ones."""
    if later.has_own_steps:
        first = min(later.steps)
        kept = [step < first for step in earlier.steps]
        steps = [*compress(earlier.steps, kept), *later.steps]
    else:
        kept = [True] * len(earlier.steps)
        offset = max(earlier.steps) + 1 - later.steps[0]
        steps = [*earlier.steps, *(step + offset for step in later.steps)]
    return later._replace(
        steps=steps,
        times=[*compress(earlier.times, kept), *later.times],
        values=[*compress(earlier.values, kept), *later.values],
    )
