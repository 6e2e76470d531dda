"""``json_text`` does what the standard library's json does, in whatever way it is read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runner import json_text, untrusted

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_written_is_what_json_writes(value: object) -> None:
    assert json_text.dumps(value) == json.dumps(value, separators=(",", ":"))
    assert json_text.dumps(value, sort_keys=True) == json.dumps(value, separators=(",", ":"), sort_keys=True)
    assert json_text.loads(json.dumps(value, indent=1)) == value


@given(st.text(alphabet='{}[]",:-+.eE019 \n\tNaIfnitylrus\\\ufeff') | st.text())
def test_what_is_read_or_refused_is_what_json_reads_or_refuses(text: str) -> None:
    assert outcome(json_text.loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize(
    "text", ["", " ", "[1] 2", " [1]", "[1]\r\n", "\ufeff[]", '{"a":NaN}', "[-Infinity]", '{"a":1', '"\n"', "nul"]
)
def test_texts_with_something_around_them_and_damaged_ones(text: str) -> None:
    assert outcome(json_text.loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize(
    "text", ['{"a":1', "[1,", '{"a" 1}', '"\\ud8', "[" * 100_000, "[1]]", '{"a":1,}', "\x00", '"\\x"']
)
def test_damaged_text_is_refused_where_json_is_not_imported_yet(text: str) -> None:
    program = (
        "import sys; from holdfast.runner import json_text\nassert 'json' not in sys.modules\n"
        "try: json_text.loads(sys.stdin.read())\n"
        "except (ValueError, RecursionError) as error: print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("JSONDecodeError", "RecursionError")


def test_values_that_are_no_json_are_refused_in_the_same_way() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in ({1}, b"bytes", circle, {(1, 2): 3}):
        assert outcome(json_text.dumps, value) == outcome(json.dumps, value)


@pytest.mark.parametrize("functions", ["None", "types.SimpleNamespace(make_scanner=int)"], ids=["none", "others"])
def test_without_the_c_functions_json_does_it(functions: str) -> None:
    program = (
        f"import json, sys, types; sys.modules['_json'] = {functions};"
        "from holdfast.runner import json_text as j, untrusted;"
        "print(j.loads('[1, 1e999]', j.Finite), j.dumps({'b': 1, 'a': 'é'}, True));"
        "print(untrusted.loads(b'[99999999999999999999]'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == '[1, None] {"a":"\\u00e9","b":1}\n[1e+20]\n'


def test_numbers_from_elsewhere_are_bounded() -> None:
    digits = b"9" * 4000
    assert untrusted.loads(b"[9223372036854775807, -9223372036854775808]") == [2**63 - 1, -(2**63)]
    assert untrusted.loads(b"[9223372036854775808, %s, 1e999, NaN]" % digits) == [2.0**63, None, None, None]
    assert untrusted.loads(b'"%s"' % (digits * 2)) == (digits * 2).decode()
    with pytest.raises(untrusted.Untrusted, match="4000 digits"):
        untrusted.loads(digits + b"9")


def outcome(function: Callable[[Any], object], value: object) -> str:
    try:
        return repr(function(value))
    except (ValueError, TypeError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
