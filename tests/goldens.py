"""Expected texts below ``tests/golden``. ``HOLDFAST_REWRITE_GOLDEN=1`` rewrites them; review the diff."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GOLDEN = Path(__file__).with_name("golden")


def assert_golden(file: str, text: str) -> None:
    path = GOLDEN / file
    if os.environ.get("HOLDFAST_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def assert_table(name: str, lines: Iterable[str]) -> None:
    """Compare lines such as ``call: result`` with ``tests/golden/tables/NAME.txt``."""
    assert_golden(f"tables/{name}.txt", "".join(f"{line}\n" for line in lines))


def answered(function: Callable[..., object], *arguments: object, **options: object) -> str:
    """``'2h': 7200``: the arguments and what the function returns or raises."""
    shown = ", ".join([*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items())])
    try:
        return f"{shown}: {function(*arguments, **options)!r}"
    except HoldfastError as error:
        parts = (str(error), error.answer, error.hint)
        return f"{shown}: {type(error).__name__}: {' | '.join(filter(None, parts))}"
    except Exception as error:
        return f"{shown}: {type(error).__name__}: {error}"
