"""Lines added to the pip list of a conda file."""

from __future__ import annotations

import pytest

from holdfast.environments.edits import Edit, applied, with_pip_items
from holdfast.environments.spec import Entry
from holdfast.errors import ConfigError


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: x\n", "name: x\ndependencies:\n- pip:\n  - a\n  - b\n"),
        ("name: x", "name: x\ndependencies:\n- pip:\n  - a\n  - b\n"),
        ("", "dependencies:\n- pip:\n  - a\n  - b\n"),
        ("dependencies:\n", "dependencies:\n- pip:\n  - a\n  - b\n"),
        ("dependencies:", "dependencies:\n- pip:\n  - a\n  - b\n"),
        ("dependencies:\n- python\n", "dependencies:\n- python\n- pip:\n  - a\n  - b\n"),
        (
            "dependencies:\n  - python\n\n  # note\n  - numpy\nchannels:\n  - x\n",
            "dependencies:\n  - python\n\n  # note\n  - numpy\n  - pip:\n    - a\n    - b\nchannels:\n  - x\n",
        ),
        ("dependencies:\n  - python", "dependencies:\n  - python\n  - pip:\n    - a\n    - b\n"),
        ("dependencies:\r\n- python\r\n", "dependencies:\r\n- python\r\n- pip:\r\n  - a\r\n  - b\r\n"),
        ("dependencies:\n- pip:\n  - c\n- numpy\n", "dependencies:\n- pip:\n  - c\n  - a\n  - b\n- numpy\n"),
        ("dependencies:\n- pip:\n    - c\n    # d\n", "dependencies:\n- pip:\n    - c\n    - a\n    - b\n    # d\n"),
        ("dependencies:\n- pip: # x\n- numpy\n- c\n", "dependencies:\n- pip: # x\n  - a\n  - b\n- numpy\n- c\n"),
        ("dependencies:\n  - 'pip':\n    - c", "dependencies:\n  - 'pip':\n    - c\n    - a\n    - b\n"),
        ("channels:\n- x\ndependencies:\n- y\n", "channels:\n- x\ndependencies:\n- y\n- pip:\n  - a\n  - b\n"),
    ],
)
def test_items_are_added_to_the_pip_list(before: str, after: str) -> None:
    assert with_pip_items(before, ["a", "b"]) == after


def entry(line: int, column: int, raw: str, file: str = "env.yml") -> Entry:
    return Entry(raw, file, line, column, raw)


def test_edits_replace_and_remove_lines() -> None:
    text = "dependencies:\n  - a=1  # a=1\n  - b\n  - 'c'\n"
    edits = [Edit(entry(2, 5, "a=1"), "a=2", ""), Edit(entry(3, 5, "b"), "", ""), Edit(entry(4, 5, "c"), "", "")]
    assert applied(text, edits) == "dependencies:\n  - a=2  # a=1\n"


def test_edits_that_touch_other_items_are_refused() -> None:
    for text, edit in (
        ("dependencies: [a, b]\n", Edit(entry(1, 16, "a"), "", "")),
        ("- b\n", Edit(entry(1, 3, "a"), "c", "")),
        ("- a\n", Edit(entry(2, 3, "a"), "c", "")),
        ("- a\n", Edit(entry(0, 3, "a"), "c", "")),
        ("- a\n", Edit(entry(2, 3, "a"), "", "")),
    ):
        with pytest.raises(ConfigError, match="without affecting other lines") as caught:
            applied(text, [edit])
        assert caught.value.where == f"env.yml:{edit.entry.line}"


def test_edits_that_move_to_pip_make_its_list_once() -> None:
    text = "dependencies:\n  - a\n  - b\n  - c\n"
    moves = [Edit(entry(2, 5, "a"), "x", "", to_pip=True), Edit(entry(4, 5, "c"), "z", "", to_pip=True)]
    assert applied(text, moves) == "dependencies:\n  - b\n  - pip:\n    - x\n    - z\n"
    with_list = f"{text}  - pip:\n    - y\n"
    assert applied(with_list, moves) == "dependencies:\n  - b\n  - pip:\n    - y\n    - x\n    - z\n"


def test_finding_says_what_to_write() -> None:
    assert Edit(entry(1, 1, "a"), "b", "m").finding.hint == "write - b"
    assert Edit(entry(1, 1, "a", "r.txt"), "b", "m").finding.hint == "write b"
    assert Edit(entry(1, 1, "a"), "", "m").finding.hint == "delete this line"
    assert Edit(entry(1, 1, "a", "e.yaml"), "b", "m", to_pip=True).finding.hint == (
        "delete this line, and below - pip: write - b"
    )
