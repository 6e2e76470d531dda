"""Typed access to the answers of a target: a field of the wrong type raises an error that names it."""

from __future__ import annotations

from holdfast.errors import MalformedAnswerError
from holdfast.runner import untrusted, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.model import Json

_STORE_DIGITS = 32
_TEXTS = ("runner", "boot_id", "host", "python", "platform", "home")
_NAMES = {dict: "an object", list: "a list", str: "text", int: "a number", float: "a number", bool: "a boolean"}
_IN_CODE = frozenset("abcdefghijklmnopqrstuvwxyz-")
_LONGEST_CODE = 40
_MOST = 2**63  # what a store and its index can hold


def malformed(name: str, value: object, expected: str, where: str = "") -> MalformedAnswerError:
    shown = "missing" if value is None else f"{_NAMES.get(type(value), 'something else')}"
    return MalformedAnswerError(
        "the target sent a malformed answer",
        where=where,
        answer=f"{name!a} is {shown}, not {expected}",
        hint="check that this is the right machine; other targets are not affected",
    )


def text(answer: Json, name: str, where: str = "") -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise malformed(name, value, "text", where)
    return value


def optional_text(answer: Json, name: str, where: str = "") -> str:
    """Empty where it is missing or null."""
    return "" if answer.get(name) is None else text(answer, name, where)


def error_code(answer: Json) -> str:
    """The code of a refusal; empty where there is none, and where it is not one."""
    code = answer.get("error_code")
    return code if isinstance(code, str) and len(code) <= _LONGEST_CODE and set(code) <= _IN_CODE else ""


def number(answer: Json, name: str, where: str = "") -> int:
    value = answer.get(name)
    if not is_count(value):
        raise malformed(name, value, "a count", where)
    return int(str(value))


def table(answer: Json, name: str, where: str = "") -> Json:
    value = answer.get(name)
    if not isinstance(value, dict):
        raise malformed(name, value, "an object", where)
    return value


def rows(answer: Json, name: str, where: str = "") -> list[Json]:
    """A list of objects."""
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise malformed(name, value, "a list of objects", where)
    return value


def listed(answer: Json, name: str, where: str = "") -> list[object]:
    value = answer.get(name)
    if not isinstance(value, list):
        raise malformed(name, value, "a list", where)
    return value


def texts(answer: Json, name: str, where: str = "") -> list[str]:
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise malformed(name, value, "a list of strings", where)
    return value


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def check_hello(hello: object, where: str) -> Json:
    """A hello whose every known field has its type; texts that are missing are empty."""
    if not isinstance(hello, dict):
        raise malformed("hello", hello, "an object", where)
    if type(hello.get("protocol")) is not int or hello["protocol"] != wire.PROTOCOL:
        raise MalformedAnswerError(
            "the runner on the target uses another protocol version",
            where=where,
            answer=f"{hello.get('protocol')!a:.100}, not {wire.PROTOCOL}",
            hint="check that this is the right machine",
        )
    try:
        store = untrusted.hexadecimal(hello.get("store"), _STORE_DIGITS)
    except untrusted.Untrusted as error:
        raise malformed("store", hello.get("store"), "32 hexadecimal digits", where) from error
    fit = hello.get("fit")
    if fit is not None and not isinstance(fit, dict):
        raise malformed("fit", fit, "an object", where)
    return {**hello, "store": store, "fit": fit or {}, **{name: optional_text(hello, name, where) for name in _TEXTS}}
