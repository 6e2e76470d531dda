"""Fields of a target's answers: the right type, or an error that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast import answers
from holdfast.errors import MalformedAnswerError
from holdfast.runner import wire

if TYPE_CHECKING:
    from collections.abc import Callable

HELLO = {"protocol": wire.PROTOCOL, "store": "0123456789abcdef" * 2}


@pytest.mark.parametrize(
    ("read", "good", "bad", "expected"),
    [
        (answers.text, ["", "x"], [1, True, []], "text"),
        (answers.number, [0, 7, 2**63 - 1], [-1, 2**63, True, 1.0, "1"], "a count"),
        (answers.table, [{}, {"a": 1}], [[], "x"], "an object"),
        (answers.rows, [[], [{}, {"a": 1}]], [{}, "x", [1], [{}, 1]], "a list of objects"),
        (answers.texts, [[], ["a", ""]], [{}, "x", [1], ["a", 1]], "a list of strings"),
    ],
)
def test_field_of_another_type_is_refused_by_name(
    read: Callable[..., Any], good: list[Any], bad: list[Any], expected: str
) -> None:
    for value in good:
        assert read({"field": value}, "field") == value
    with pytest.raises(MalformedAnswerError) as caught:
        read({}, "field", "box")
    assert (caught.value.answer, caught.value.where) == (f"'field' is missing, not {expected}", "box")
    for value in bad:
        with pytest.raises(MalformedAnswerError) as caught:
            read({"field": value}, "field")
        assert caught.value.answer.endswith(f", not {expected}")


def test_optional_text_may_be_missing_or_null_only() -> None:
    assert answers.optional_text({}, "field") == answers.optional_text({"field": None}, "field") == ""
    assert answers.optional_text({"field": "x"}, "field") == "x"
    with pytest.raises(MalformedAnswerError):
        answers.optional_text({"field": 0}, "field")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        *(("gpu-busy", "gpu-busy"), ("a" * 40, "a" * 40), ("a" * 41, "")),
        *(("", ""), ("Not a code", ""), (None, ""), (7, ""), (["a"], "")),
    ],
)
def test_error_code_is_short_and_of_small_letters(sent: object, code: str) -> None:
    assert answers.error_code({"error_code": sent}) == code


def test_hello_is_complete_after_the_check() -> None:
    texts = dict.fromkeys(("runner", "boot_id", "host", "python", "platform", "home"), "")
    assert answers.check_hello(HELLO, "box") == {**HELLO, "fit": {}, **texts}
    assert answers.check_hello({**HELLO, "fit": {"a": 1}, "host": "h"}, "box")["fit"] == {"a": 1}


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        (["x"], "'hello' is a list, not an object"),
        ({**HELLO, "protocol": wire.PROTOCOL + 1}, f"{wire.PROTOCOL + 1}, not {wire.PROTOCOL}"),
        ({**HELLO, "protocol": wire.PROTOCOL - 1}, f"{wire.PROTOCOL - 1}, not {wire.PROTOCOL}"),
        ({**HELLO, "protocol": float(wire.PROTOCOL)}, f"{float(wire.PROTOCOL)}, not {wire.PROTOCOL}"),
        ({**HELLO, "store": "0" * 31}, "'store' is text, not 32 hexadecimal digits"),
        ({**HELLO, "store": "0" * 33}, "'store' is text, not 32 hexadecimal digits"),
        ({**HELLO, "fit": []}, "'fit' is a list, not an object"),
        ({**HELLO, "home": 1.5}, "'home' is a number, not text"),
        ({**HELLO, "host": True}, "'host' is a boolean, not text"),
        ({**HELLO, "host": b""}, "'host' is something else, not text"),
    ],
)
def test_malformed_hello_is_refused(hello: object, answer: str) -> None:
    with pytest.raises(MalformedAnswerError) as caught:
        answers.check_hello(hello, "box")
    assert caught.value.answer == answer
