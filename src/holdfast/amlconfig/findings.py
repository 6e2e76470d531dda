"""Findings as text and as an exception."""

from __future__ import annotations

from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.amlconfig.types import Finding


def render(findings: Iterable[Finding]) -> str:
    """``file:line:column: severity: message`` a line, each hint indented below; empty for no findings."""
    return "".join(
        f"{_plain(place(finding))}: {finding.severity}: {_plain(finding.message)}\n"
        + "".join(f"    {_plain(line)}\n" for line in finding.hint.splitlines())
        for finding in findings
    )


def _plain(text: str) -> str:
    """On one line and without what acts on a terminal: names and values come from the files that are checked."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise the first error as a ``ConfigError`` that says how many more there are."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    more = len(errors) - 1
    hint = errors[0].hint
    if more:
        rest = f"{more} more error{'s' if more > 1 else ''}: see holdfast check"
        hint = f"{hint} ({rest})" if hint else rest
    raise ConfigError(errors[0].message, where=place(errors[0]), hint=hint)


def place(finding: Finding) -> str:
    """``file:line:column``, or the file alone where the finding is about all of it."""
    return f"{finding.file}:{finding.line}:{finding.column}" if finding.line else finding.file
