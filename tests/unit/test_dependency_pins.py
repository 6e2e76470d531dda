"""The versions that are developed with lie in the ranges that users get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")


def requirements(table: str) -> dict[str, Requirement]:
    """By name, from all lists of a table of pyproject.toml."""
    text = PYPROJECT.partition(f"\n[{table}]\n")[2].partition("\n[")[0]
    found = map(Requirement, re.findall(r'"([A-Za-z][\w.-]*(?:[<>=~!]=?)[^"]*)"', text))
    return {requirement.name: requirement for requirement in found}


PINNED = requirements("dependency-groups")
RANGES = {**requirements("project"), **requirements("project.optional-dependencies")}


@pytest.mark.parametrize("name", sorted(PINNED.keys() & RANGES.keys()))
def test_pinned_version_lies_in_the_range_of_its_extra(name: str) -> None:
    (pin,) = PINNED[name].specifier
    assert RANGES[name].specifier.contains(pin.version), f"{PINNED[name]} and {RANGES[name]}"


def test_libraries_of_extras_are_among_the_pinned() -> None:
    assert {"cloudpickle", "mcp", "pillow", "pyarrow"} <= PINNED.keys() & RANGES.keys()
