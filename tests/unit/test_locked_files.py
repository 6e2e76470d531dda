"""A pylock.toml that cannot be read is refused by the builder with its name."""

from __future__ import annotations

import pytest

from holdfast.builder import locked_files
from holdfast.builder.failure import Failed

PACKAGE = '[[packages]]\nname = "x"\n'


@pytest.mark.parametrize(
    "text", [f"{PACKAGE}version = {'9' * 5000}\n", f"{PACKAGE}vcs = 1\n", "packages = [1]\n", f"a = {'[' * 5000}"]
)
def test_odd_value_in_pylock_is_refused(text: str) -> None:
    with pytest.raises(Failed) as caught:
        locked_files.from_pylock({"locked": text, "source": "pylock.toml"}, {})
    assert "this pylock.toml cannot be read" in str(caught.value)
