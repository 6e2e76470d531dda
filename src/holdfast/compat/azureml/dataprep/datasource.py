"""Reads ``.dsource`` files of the original."""

# ruff: noqa: ARG001 - the signature is the original's

from . import _holdfast_flow as flow
from ._holdfast_table import as_asked


def load_datasource(path: "str", secrets: "object" = None, spark: "object" = None) -> "object":
    """The data: a pandas DataFrame, or one of Spark with ``spark`` or an active session."""
    return as_asked(flow.table(path, 0), spark)
