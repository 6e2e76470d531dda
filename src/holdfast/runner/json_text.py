"""JSON by the C functions of the standard library's ``json``, without importing ``json`` itself.

That would import ``re`` and compile its expressions: a sixth of the time that the runner takes to start. Whatever these
functions cannot do is left to ``json``, and so is every error message. Client and runner share this module.
"""

MYPY = False
if MYPY:
    from typing import Any

try:
    import _json
except ImportError:  # another implementation of Python
    _json = None  # type: ignore[assignment]

_SPACE = " \t\n\r"


def _constant(name: "str") -> "float":
    return float(name.replace("Infinity", "inf"))


class Plain:
    """How numbers are read; a subclass may read them otherwise. ``make_scanner`` reads these names."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_int = int  # type: Any
    parse_float = float  # type: Any
    parse_constant = _constant  # type: Any


def finite(text: "str") -> "float | None":
    number = float(text)
    return number if number - number == 0 else None


def _nothing(_name: "str") -> "None":
    return None


class Finite(Plain):
    """NaN and infinities are no JSON: they become null, so that no reader has to expect them."""

    parse_float = finite
    parse_constant = _nothing


def loads(text: "str", numbers: "type[Plain]" = Plain) -> "Any":
    """The same as ``json.loads``: ValueError, or RecursionError, where the text is not JSON."""
    if _is_known:
        try:
            value, end = _scan(numbers, text)
            if not text[end:].strip(_SPACE):
                return value
        except (StopIteration, SystemError):
            pass  # a space at the beginning, or no JSON, for which 3.10 to 3.12 have no error before json is imported
    import json

    return json.loads(
        text, parse_int=numbers.parse_int, parse_float=numbers.parse_float, parse_constant=numbers.parse_constant
    )


def dumps(value: "object", sort_keys: "bool" = False) -> "str":
    """ASCII JSON without spaces, in one line."""
    if _is_known:
        return _encode(value, sort_keys)
    import json

    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"))


def _scan(numbers: "type[Plain]", text: "str") -> "tuple[Any, int]":
    return _json.make_scanner(numbers)(text, 0)  # type: ignore[arg-type]


def _encode(value: "object", sort_keys: "bool") -> "str":
    escape = _json.encode_basestring_ascii
    return "".join(_json.make_encoder({}, _refuse, escape, None, ":", ",", sort_keys, False, True)(value, 0))


def _refuse(value: "object") -> "object":
    raise TypeError("Object of type %s is not JSON serializable" % type(value).__name__)


def _works() -> "bool":
    """Whether these functions are as we know them: they are private to CPython, and another version may differ."""
    text = '{"a":[1,2.5,null,"b"]}'
    try:
        return _json is not None and _scan(Plain, text)[1] == len(text) and _encode(_scan(Plain, text)[0], True) == text
    except (AttributeError, TypeError, ValueError):
        return False


_is_known = _works()
