"""Runs ``.dprep`` files of the original."""

# ruff: noqa: ARG001 - the signatures are the original's

from . import _holdfast_flow as flow
from ._holdfast_table import as_asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def run(package_path: "str", dataflow_idx: "int" = 0, secrets: "object" = None, spark: "object" = None) -> "object":
    """The result of a data flow: a pandas DataFrame, or one of Spark with ``spark`` or an active session."""
    return as_asked(flow.table(package_path, dataflow_idx), spark)


def submit(package_path: "str", dataflow_idx: "int" = 0, secrets: "object" = None, spark: "object" = None) -> "object":
    """As ``run``: nothing is executed elsewhere."""
    return run(package_path, dataflow_idx, secrets, spark)


def run_on_data(
    user_config: "Mapping[str, object]",
    package_path: "str",
    dataflow_idx: "int" = 0,
    secrets: "object" = None,
    spark: "object" = None,
) -> "object":
    """As ``run``; ``user_config`` maps files of data sources to their rows, as lists or as a frame."""
    return as_asked(flow.table(package_path, dataflow_idx, user_config), spark)
