"""What the Python API refuses before anything is submitted, and how its errors read."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.api.documented_errors import raised_documented
from holdfast.api.option_checks import checked_seconds, script_arguments
from holdfast.errors import CannotSendError, HoldfastError, RemoteError, UsageError
from holdfast.runner.store.jsonl import sealed
from holdfast.runner.untrusted import Untrusted
from holdfast.script_api.cell_history import CellHistory
from holdfast.store.shared.shared_folder import Author, read_run


def test_arguments_of_a_script_are_text_and_numbers() -> None:
    given = ("--lr", 0.1, Decimal("1.5"), Path("a/b"), True, None, [1, "x"])
    assert script_arguments(given) == ["--lr", "0.1", "1.5", "a/b", "True", "None", "[1, 'x']"]


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x"), object(), print, lambda: 1, int])
def test_argument_that_python_shows_by_its_address_or_as_bytes_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="argument 2 of the script cannot be of the type"):
        script_arguments(("a", value))


def test_time_limit_that_is_no_number_is_refused() -> None:
    checked_seconds("timeout", math.inf)
    with pytest.raises(UsageError):
        checked_seconds("timeout", math.nan)


def raised(error: HoldfastError) -> str:
    with pytest.raises(HoldfastError) as caught, raised_documented():
        raise error
    return str(caught.value)


def test_exception_of_the_api_shows_what_was_found_and_what_to_do() -> None:
    error = CannotSendError("x cannot be sent", where="a.py:1", answer="boom \x1b[2J", hint="make it there")
    assert str(error) == "a.py:1: x cannot be sent"  # the command line prints the parts by itself
    assert raised(error) == "a.py:1: x cannot be sent\n  answer: boom \\x1b[2J\n  try: make it there"
    assert raised(UsageError("no")) == "no"
    assert len(raised(UsageError("no", answer="x" * 10_000))) < 2100
    assert raised(RemoteError("ValueError: 1", answer="Traceback")) == "ValueError: 1"


@pytest.mark.parametrize("call", [lambda h: h.azureml("bogus"), lambda h: h.upload("nope"), lambda h: h.upload("../x")])
def test_wrong_use_of_a_magic_is_shown_without_a_traceback(call: object) -> None:
    with pytest.raises(ValueError, match=r"usage|below outputs") as caught:
        call(CellHistory(None))  # type: ignore[operator]
    (line,) = caught.value._render_traceback_()  # type: ignore[attr-defined]
    assert line == f"UsageError: {caught.value}"


def test_damaged_line_of_a_shared_run_is_named_with_its_file(tmp_path: Path) -> None:
    author, uid = Author("a" * 32, str(tmp_path), "ada", False), "b" * 32
    path = Path(author.run_path(uid))
    path.parent.mkdir(parents=True)
    line = sealed({"kind": "holdfast-shared-run", "uid": uid})
    for damaged in (b"", b"{", line + line, b'{"uid": "\xed\xa0\x80"}', json.dumps([uid]).encode()):
        path.write_bytes(damaged)
        with pytest.raises(Untrusted, match=rf"runs/{uid}\.json is damaged"):
            read_run(author, uid)
