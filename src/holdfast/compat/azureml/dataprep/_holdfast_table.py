"""The result of a data flow as pandas or as Spark."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pandas as pd


def as_asked(frame: "pd.DataFrame", spark: "object") -> "object":
    """``spark`` is a session, True or False; without it Spark is used where a session is active."""
    session = _session(spark)
    return frame if session is None else session.createDataFrame(frame)  # type: ignore[attr-defined]


def _session(spark: "object") -> "object":
    if spark is False:
        return None
    if spark is not None and spark is not True:
        return spark
    if spark is None and "pyspark" not in sys.modules:
        return None
    from importlib import import_module

    sessions = import_module("pyspark.sql").SparkSession
    if spark is True:
        return sessions.builder.getOrCreate()
    return getattr(sessions, "_instantiatedSession", None)
