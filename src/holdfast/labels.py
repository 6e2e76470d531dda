"""Reads the name and tags of a run as they are typed: ``--name``, ``--tag dataset=v3`` (pure)."""

from __future__ import annotations

import math

from holdfast import parameters
from holdfast.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.model import Json

_LONGEST = 200
_LONGEST_VALUE = 6000  # of a tag, as of those that scripts set with MLflow or wandb


def read_tags(texts: Iterable[str]) -> Json:
    """``NAME=VALUE``, or ``NAME`` alone, which is true."""
    tags: Json = {}
    for word in texts:
        name, equals, value = word.partition("=")
        tags[checked_tag(name)] = parameters.typed(value) if equals else True
        _check_value(name, value)
    return tags


def checked_tags(tags: Mapping[str, object]) -> Json:
    """Tags of a program, where None takes one away."""
    for name, value in tags.items():
        checked_tag(name)
        if value is not None:
            _check_value(name, value)
    return dict(tags)


def _check_value(name: str, value: object) -> None:
    what = f"the value of the tag {name}"
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{what} is a {type(value).__name__}", hint="a tag has a number, text, True or False")
    if isinstance(value, str):
        if len(value) > _LONGEST_VALUE:
            hint = "write longer text with holdfast note, or into a file of the project"
            raise UsageError(f"{what} has more than {_LONGEST_VALUE} characters", answer=str(len(value)), hint=hint)
    elif not _is_finite(value):
        hint = "a tag has a finite number, text, True or False"
        answer = f"{value}" if isinstance(value, float) else "an integer beyond the range of a float"
        raise UsageError(f"{what} is not a finite number", answer=answer, hint=hint)


def _is_finite(value: float) -> bool:
    """Also of an integer that is greater than any float: readers of JSON make it an infinity."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def checked_tag(name: str) -> str:
    if not isinstance(name, str) or not is_tag(name):
        raise UsageError(f"invalid tag name: {name!a}", hint="a name and its value: dataset=v3")
    return name


def checked_name(name: str) -> str:
    """A name that ``-r`` can tell from a number and from ``last``."""
    if not isinstance(name, str) or not is_name(name):
        hint = f"at most {_LONGEST} printable characters, not a number and not the word last"
        raise UsageError(f"invalid run name: {name!a}", where="--name", hint=hint)
    return name


def is_tag(name: str) -> bool:
    return 0 < len(name) <= _LONGEST and name.isprintable()


def is_name(name: str) -> bool:
    is_taken = name == "last" or (name.isascii() and name.isdigit())
    return 0 < len(name) <= _LONGEST and name.isprintable() and name.strip() == name and not is_taken
