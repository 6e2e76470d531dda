"""Which names and tags a run may have."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.labels import checked_name, checked_tag, checked_tags, read_tags


def test_tags_are_names_with_or_without_a_value() -> None:
    assert read_tags(["dataset=v3", "best"])["dataset"] == "v3"
    assert checked_tags({"a": 1, "b": "x", "c": True, "d": None}) == {"a": 1, "b": "x", "c": True, "d": None}
    assert (checked_tag("dataset"), checked_name("first try")) == ("dataset", "first try")


@pytest.mark.parametrize("name", ["", "a\n", 3, None])
def test_tag_name_that_cannot_be_typed_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="invalid tag name"):
        checked_tag(name)


@pytest.mark.parametrize("name", ["", "12", "last", "a\n", 3, None])
def test_run_name_that_means_something_else_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="invalid run name"):
        checked_name(name)


def test_tag_has_a_plain_value() -> None:
    with pytest.raises(UsageError, match="the value of the tag a is a list"):
        checked_tags({"a": [1]})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_tag_that_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="the value of the tag a is not a finite number"):
        checked_tags({"b": 1, "a": value})


def test_tag_has_a_value_of_limited_length() -> None:
    assert checked_tags({"a": "x" * 6000}) == {"a": "x" * 6000} == read_tags([f"a={'x' * 6000}"])
    with pytest.raises(UsageError, match="the value of the tag a has more than 6000 characters"):
        checked_tags({"a": "x" * 6001})
    with pytest.raises(UsageError, match="the value of the tag a has more than 6000 characters"):
        read_tags(["b", f"a={'x' * 6001}"])
