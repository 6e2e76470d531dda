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

_VERSION = re.compile(r"^__version__[^=\n]*=\s*['\"]([^'\"]+)", re.MULTILINE)
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


def client_version() -> "str":
    """Of the package pyspark, which may be a client of Connect servers alone; empty where there is none."""
    try:
        with open(os.path.join(_package(), "version.py"), encoding="utf-8", errors="replace") as source:
            match = _VERSION.search(source.read())
    except OSError:
        return ""
    return match.group(1) if match is not None else ""


def _package() -> "str":
    from importlib.util import find_spec

    if "pyspark" in sys.modules:
        return os.path.dirname(sys.modules["pyspark"].__file__ or "")
    spec = find_spec("pyspark")
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
