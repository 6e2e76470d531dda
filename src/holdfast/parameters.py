"""Parses a script's arguments into names and values: ``--lr 0.1``, ``--lr=0.1``, ``lr=0.1``, ``-b 32``, ``--fast``.

The script may parse them differently. So the result only serves to find runs, and the arguments themselves are kept
beside it. Pure.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

Scalar: TypeAlias = "bool | int | float | str"
Parameter: TypeAlias = "Scalar | list[Scalar]"

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_OPTION = re.compile(r"--?([A-Za-z_][\w./-]*)", re.ASCII)
_SHORT_WITH_NUMBER = re.compile(r"-([A-Za-z])(\d[\d.eE+-]*)")
_ASSIGNED = re.compile(r"\+{0,2}([A-Za-z_][\w./-]*)=(.*)", re.ASCII | re.DOTALL)
_WORDS: dict[str, bool] = {"true": True, "false": False}
_LONGEST_INTEGER = 18  # digits that any reader of numbers can hold exactly


def read(tokens: Sequence[str]) -> dict[str, Parameter]:
    """Names and typed values, in the order of the line. A name that comes again makes a list."""
    parameters: dict[str, Parameter] = {}
    at = 0
    while at < len(tokens) and tokens[at] != "--":
        at = _read_one(tokens, at, parameters)
    return parameters


def typed(text: str) -> Scalar:
    """A number or a truth value where the text is one; else the text."""
    return _number(text) if _NUMBER.fullmatch(text) else _WORDS.get(text.lower(), text)


def _read_one(tokens: Sequence[str], at: int, parameters: dict[str, Parameter]) -> int:
    """Take the parameter at ``tokens[at]``; return the next position."""
    word = tokens[at]
    name, equals, value = word.partition("=")
    option = _OPTION.fullmatch(name)
    if option and equals:
        _add(parameters, option[1], [typed(value)])
    elif option and (short := _SHORT_WITH_NUMBER.fullmatch(word)):
        _add(parameters, short[1], [typed(short[2])])
    elif option:
        values = _values(tokens, at + 1)
        _add(parameters, option[1], values or [True])
        return at + 1 + len(values)
    elif assigned := _ASSIGNED.fullmatch(word):
        _add(parameters, assigned[1], [typed(assigned[2])])
    return at + 1


def _values(tokens: Sequence[str], at: int) -> list[Scalar]:
    """The word after an option, and after a number all numbers that follow: ``--layers 64 64 10``."""
    values: list[Scalar] = []
    while at < len(tokens) and _NUMBER.fullmatch(tokens[at]):
        values.append(_number(tokens[at]))
        at += 1
    if values or at == len(tokens) or not _is_value(tokens[at]):
        return values
    return [typed(tokens[at])]


def _is_value(word: str) -> bool:
    return not word.startswith("-") and (" " in word or not _ASSIGNED.fullmatch(word))


def _number(text: str) -> Scalar:
    digits = text.lstrip("+-")
    if digits.isascii() and digits.isdigit():
        return int(text) if len(text.lstrip("+-0")) <= _LONGEST_INTEGER else text
    value = float(text)
    return value if value - value == 0 else text


def _add(parameters: dict[str, Parameter], name: str, values: list[Scalar]) -> None:
    before = parameters.get(name)
    if before is not None:
        values = [*(before if isinstance(before, list) else [before]), *values]
    parameters[name] = values[0] if len(values) == 1 else values
