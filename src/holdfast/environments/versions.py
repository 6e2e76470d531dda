"""Versions of Python against constraints, in pip's and in conda's spelling."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")
_CLAUSE = re.compile(r"(===|==|~=|!=|<=|>=|<|>|=|)(\d+(?:\.\d+)*)(\.?\*)?")


def release(version: str) -> tuple[int, ...]:
    """The numbers a version begins with: ``(3, 11, 7)`` for ``3.11.7rc1``."""
    found = _RELEASE.match(version.strip())
    return tuple(map(int, found[1].split("."))) if found else ()


def allows(constraint: str | None, version: str) -> bool:
    """Whether ``version`` is within ``constraint``. What we cannot read forbids nothing."""
    alternatives = (constraint or "").replace(" ", "").split("|")
    return any(all(_clause_allows(clause, release(version)) for clause in one.split(",")) for one in alternatives)


def minor(constraint: str | None) -> tuple[int, int] | None:
    """``(3, 5)`` where the constraint leaves no other minor version."""
    for clause in (constraint or "").replace(" ", "").split(","):
        found = _CLAUSE.fullmatch(clause)
        if found and found[1] in ("", "=", "==", "===", "~="):
            numbers = release(found[2])
            if len(numbers) > (2 if found[1] == "~=" else 1):
                return numbers[0], numbers[1]
    return None


def from_conda(version: str) -> str:
    """conda's ``3.5.2`` and ``=3.5`` as pip writes them: ``==3.5.2.*``, ``==3.5.*``."""
    clauses = []
    for clause in version.split(","):
        found = _CLAUSE.fullmatch(clause)
        loose = found and found[1] in ("", "=")
        clauses.append(f"=={found[2]}.*" if found and loose else clause)
    return ",".join(sorted(clauses))


def _clause_allows(clause: str, version: tuple[int, ...]) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if not found or not version:
        return True
    from packaging.specifiers import InvalidSpecifier, Specifier

    operator, numbers, is_prefix = found[1], found[2], bool(found[3]) or found[1] in ("", "=")
    operator = {"": "==", "=": "==", "===": "=="}.get(operator, operator)
    # Old projects write >=3.6.* too, which PEP 440 does not allow.
    ending = ".*" if is_prefix and operator in ("==", "!=") else ""
    try:
        return Specifier(operator + numbers + ending).contains(".".join(map(str, version)))
    except InvalidSpecifier:
        return True
