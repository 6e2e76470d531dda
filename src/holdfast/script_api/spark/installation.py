"""Where Spark is for this Python, and which versions of Spark and Scala it has."""

import os
import re
import sys

MYPY = False
if MYPY:
    from typing import NamedTuple

    class Installation(NamedTuple):
        home: "str"
        spark: "str"
        scala: "str"

else:
    from collections import namedtuple

    Installation = namedtuple("Installation", "home spark scala")

_CORE = re.compile(r"spark-core_(\d+\.\d+)-(.+)\.jar$")


def find() -> "Installation | None":
    """SPARK_HOME, or the package pyspark; nothing is imported."""
    home = os.environ.get("SPARK_HOME") or _package()
    try:
        names = os.listdir(os.path.join(home, "jars")) if home else []
    except OSError:
        names = []
    for name in names:
        match = _CORE.match(name)
        if match:
            return Installation(home, match.group(2), match.group(1))
    return None


def _package() -> "str":
    from importlib.util import find_spec

    if "pyspark" in sys.modules:
        return os.path.dirname(sys.modules["pyspark"].__file__ or "")
    spec = find_spec("pyspark")
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
