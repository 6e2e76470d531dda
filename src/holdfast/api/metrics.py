"""The metrics of a run as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.metrics import reader
from holdfast.metrics.values import Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN = 20


class Metric:
    """All values of one name. ``steps``, ``times`` (seconds since 1970) and ``values`` have the same length.

    They are numpy arrays where numpy is installed, else sequences; values that are not all numbers are a list.
    """

    def __init__(self, series: Series) -> None:
        self._series = series
        self.name = series.name

    @property
    def steps(self) -> Any:
        """The step of each value."""
        return _array(self._series.steps, "int64")

    @property
    def times(self) -> Any:
        """When each value was logged, in seconds since 1970."""
        return _array([nanoseconds / 1e9 for nanoseconds in self._series.times], "float64")

    @property
    def values(self) -> Any:
        """The values in the order they were logged."""
        values = self._series.values
        if all(type(value) in (int, float, bool) for value in values):
            return _array(values, "float64")
        return list(values)

    @property
    def last(self) -> Any:
        """The value that was logged last."""
        return self._series.values[-1]

    @property
    def min(self) -> float | None:
        """The least finite number; None where there is none."""
        return reader.extremes(self._series.values)[0]

    @property
    def max(self) -> float | None:
        """The greatest finite number; None where there is none."""
        return reader.extremes(self._series.values)[1]

    @property
    def best(self) -> float | None:
        """The least or the greatest, by the metric's name: that of a loss is its least."""
        return reader.digest(self._series).best

    def __len__(self) -> int:
        return len(self._series.values)

    def __repr__(self) -> str:
        return f"Metric({self.name!r}, {len(self)} values, last {self.last!r})"


class Metrics(Mapping[str, Metric]):
    """The metrics of a run by name, as they were when ``run.metrics`` was read; those of all its attempts as one."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._by_name = reader.read_attempts(folders).by_name

    def __getitem__(self, name: str) -> Metric:
        if name not in self._by_name:
            raise KeyError(f"{name}; metrics of this run: {some(list(self._by_name))}")
        return Metric(self._by_name[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Metrics({', '.join(self._by_name)})"


def some(names: Sequence[str]) -> str:
    """The first of them, for a message."""
    shown = ", ".join(names[:_SHOWN])
    return f"{shown}, ..." if len(names) > _SHOWN else shown or "none"


def _array(values: Sequence[Any], kind: str) -> Any:
    try:
        import numpy as np
    except ImportError:
        return values
    return np.array(values, dtype=kind)
