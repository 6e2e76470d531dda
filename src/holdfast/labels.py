"""Reads the name and tags of a run as they are typed: ``--name``, ``--tag dataset=v3`` (pure)."""

from __future__ import annotations

from holdfast import parameters
from holdfast.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.model import Json

_LONGEST = 200


def read_tags(texts: Iterable[str]) -> Json:
    """``NAME=VALUE``, or ``NAME`` alone, which is true."""
    tags: Json = {}
    for word in texts:
        name, equals, value = word.partition("=")
        tags[checked_tag(name)] = parameters.typed(value) if equals else True
    return tags


def checked_tags(tags: Mapping[str, object]) -> Json:
    """Tags of a program, where None takes one away."""
    for name, value in tags.items():
        checked_tag(name)
        if value is not None and not isinstance(value, (str, int, float)):
            what = f"the value of the tag {name} is a {type(value).__name__}"
            raise UsageError(what, hint="a tag has a number, text, True or False")
    return dict(tags)


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
