"""Fields of run.json that have a wrong type are left out, also those inside of what git said."""

from __future__ import annotations

import pytest

from holdfast.store import request_file

ODD: list[object] = [[], [1], {}, {"x": 1}, 7, 1.5]
RIGHT = {"commit": "ab" * 20, "branch": "main", "dirty": True, "diff": {"bytes": 1}}


@pytest.mark.parametrize("value", [RIGHT, {**RIGHT, "dirty": None}, {"commit": None}, {}])
def test_what_git_said_is_kept(value: object) -> None:
    assert request_file.checked({"git": value}) == ({"git": value}, [])


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("field", ["commit", "branch", "dirty"])
def test_fact_of_git_with_a_wrong_type_costs_these_facts(field: str, value: object) -> None:
    assert request_file.checked({"script": "train.py", "git": {**RIGHT, field: value}}) == (
        {"script": "train.py"},
        ["git"],
    )
