"""Runs as tables of pandas, polars and pyarrow."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.api.documented_errors import documented_errors
from holdfast.errors import MissingPackageError
from holdfast.store.index import columns as index_columns
from holdfast.store.index.index import Index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.store.home import Home

    Columns = dict[str, list[Any]]

_MOMENTS = ("created_utc", "start_time_utc", "end_time_utc")


@documented_errors
def columns(home: Home, uids: Sequence[str]) -> Columns:
    index = Index(home)
    try:
        cells_by_column = index_columns.read(index, uids)
    finally:
        index.close()
    made = {name: _uniform(cells) for name, cells in cells_by_column.items()}
    for name in _MOMENTS:
        made[name] = [None if text is None else datetime.fromisoformat(text) for text in made[name]]
    return made


def to_pandas(read: Callable[[], Columns]) -> Any:
    pandas = needed("pandas")
    return pandas.DataFrame(read(), copy=False)


def to_polars(read: Callable[[], Columns]) -> Any:
    polars = needed("polars")
    return polars.DataFrame(read(), strict=False)


def to_arrow(read: Callable[[], Columns]) -> Any:
    return needed("pyarrow").table(read())


def needed(package: str) -> Any:
    """An optional package, or an error that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        what = f"this needs the package {package}, which is not installed here"
        raise MissingPackageError(what, answer=str(error), hint=f"pip install {package}") from error


def _uniform(cells: Sequence[Any]) -> list[Any]:
    """The cells as one type, as tables need it: numbers as float where they are mixed, and text where some are text."""
    kinds = set(map(type, cells)) - {type(None)}
    if len(kinds) < 2:
        return list(cells)
    if kinds <= {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    return [None if cell is None else str(cell) for cell in cells]
