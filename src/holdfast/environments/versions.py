"""Versions of Python against constraints, in pip's and in conda's spelling."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"v?(\d{1,18}(?:\.\d{1,18})*)")
_CLAUSE = re.compile(r"(===|==|~=|!=|<=|>=|<|>|=|)(\d{1,18}(?:\.\d{1,18})*)(\.?\*)?")


def release(version: str) -> tuple[int, ...]:
    """The numbers a version begins with: ``(3, 11, 7)`` for ``3.11.7rc1``."""
    match = _RELEASE.match(version.strip())
    return tuple(map(int, match[1].split("."))) if match else ()


def allows(constraint: str | None, version: str) -> bool:
    """Whether ``version`` is within ``constraint``. What we cannot read forbids nothing."""
    alternatives = (constraint or "").replace(" ", "").split("|")
    return any(
        all(_clause_allows(clause, release(version)) for clause in alternative.split(","))
        for alternative in alternatives
    )


def minor(constraint: str | None) -> tuple[int, int] | None:
    """``(3, 5)`` where the constraint leaves no other minor version."""
    for clause in (constraint or "").replace(" ", "").split(","):
        match = _CLAUSE.fullmatch(clause)
        if match and match[1] in ("", "=", "==", "===", "~="):
            numbers = release(match[2])
            if len(numbers) > (2 if match[1] == "~=" else 1):
                return numbers[0], numbers[1]
    return None


def from_conda(version: str) -> str:
    """conda's ``3.5.2`` and ``=3.5`` as pip writes them: ``==3.5.2.*``, ``==3.5.*``."""
    clauses = []
    for clause in version.split(","):
        match = _CLAUSE.fullmatch(clause)
        loose = match and match[1] in ("", "=")
        clauses.append(f"=={match[2]}.*" if match and loose else clause)
    return ",".join(sorted(clauses))


def _clause_allows(clause: str, version: tuple[int, ...]) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if not match or not version:
        return True
    from packaging.specifiers import InvalidSpecifier, Specifier

    operator, numbers, is_prefix = match[1], match[2], bool(match[3]) or match[1] in ("", "=")
    operator = {"": "==", "=": "==", "===": "=="}.get(operator, operator)
    # Old projects write >=3.6.* too, which PEP 440 does not allow.
    ending = ".*" if is_prefix and operator in ("==", "!=") else ""
    try:
        return Specifier(operator + numbers + ending).contains(".".join(map(str, version)))
    except InvalidSpecifier:
        return True
