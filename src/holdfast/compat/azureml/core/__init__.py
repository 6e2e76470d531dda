"""The part of the successor's API that a training script uses: its run."""

from .run import Run

__all__ = ["Run"]
